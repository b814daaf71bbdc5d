"""Context lengths and refusals against vLLM's and transformers' own code, config by config."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import Level
from autoadapter.engine import find_engine, run_worker
from autoadapter.engine.process import LAUNCHER
from autoadapter.errors import BrokenCheckpointError
from tests.unit.analyze.analyze_files import LLAMA, write_model
from tests.unit.analyze.test_analyze_acceptance import FINE, FP8, GPTQ, LISTS, LLAMA3, REFUSED, ROPE, SIZES, UNSERVED

pytestmark = pytest.mark.engine

WORKER = Path(__file__).parent / "workers" / "config_oracle.py"
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
SCALINGS: list[dict[str, Any]] = [
    {}, {"type": "linear", "factor": 4.0}, {"rope_type": "linear", "factor": 2}, {"type": "dynamic", "factor": 2.5},
    {"factor": 4.0}, {"rope_type": "default", "factor": 4.0}, {"rope_type": "default"}, YARN, LLAMA3,
    {"type": "yarn", "factor": 4.0}, YARN | {"rope_type": "deepseek_yarn"}, YARN | {"rope_type": "telechat3-yarn"},
    YARN | {"rope_type": "deepseek_llama_scaling"}, {"type": "mrope", "mrope_section": [16, 24, 24], "factor": 2.0},
    {"type": "mrope", "rope_type": "default", "mrope_section": [16, 24, 24]}, {"type": "longrope", **LISTS},
    {"type": "su", **LISTS}, {"type": "longrope", **LISTS, "factor": 4.0}, {"rope_type": "ntk", "factor": 2.0},
    {"rope_type": "proportional", "factor": 2.0, "partial_rotary_factor": 0.5},
    {"full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": {"rope_type": "default"}},
    {"sliding_attention": {"rope_type": "default"}, "full_attention": {"rope_type": "linear", "factor": 8.0}},
    {"full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": {"type": "dynamic", "factor": 2.0}},
]  # fmt: skip
LENGTHS: list[dict[str, Any]] = [
    {"max_position_embeddings": 8192}, {"max_position_embeddings": 8192, "n_ctx": 1024},
    {"max_position_embeddings": 8192, "context_length": 1024}, {"max_position_embeddings": 8192, "seq_length": 4096},
    {"max_position_embeddings": 8192, "model_max_length": 131072}, {"max_position_embeddings": 8192, "max_seq_len": 99},
    {"max_position_embeddings": 8192, "original_max_position_embeddings": 2048},
]  # fmt: skip
LAYERS = {"layer_types": ["full_attention", "sliding_attention"] * 2}


def contexts() -> Iterator[dict[str, Any]]:
    """Every scaling with a plain length, every length with a few scalings, and Gemma 3, which is never multiplied."""
    for scaling in SCALINGS:
        yield {**(LAYERS if "full_attention" in scaling else {}), "rope_scaling": scaling}
        yield {**(LAYERS if "full_attention" in scaling else {}), "rope_parameters": scaling}
    for length in LENGTHS:
        yield from ({**length, "rope_scaling": scaling} for scaling in (SCALINGS[0], SCALINGS[1], SCALINGS[15]))
    yield {"model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    yield {"model_type": "qwen3", "rope_scaling": YARN}


def judged() -> Iterator[dict[str, Any]]:
    """Configs of which something is refused, and some of which nothing is."""
    yield from (cast("dict[str, Any]", row[0]) for row in REFUSED)
    yield from ({"rope_scaling": row[0]} for row in ROPE)
    yield from ({"quantization_config": row[0]} for row in UNSERVED)
    yield from (config for config in FINE if not {"model_type", "auto_map"} & set(config))
    yield from ({"quantization_config": one} for one in (GPTQ, GPTQ | {"bits": 8}, FP8))


CONTEXTS, JUDGED = list(contexts()), list(judged())
ELSEWHERE = ("Marlin does not support group_size",)
"""Refused where a layer is built, which the worker does not."""


def whole(config: dict[str, Any]) -> dict[str, Any]:
    return {**LLAMA, **SIZES, **config}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("configs")
    asked = {
        "launcher": str(LAUNCHER.parent),
        "folder": str(folder),
        "configs": [whole(config) for config in (*CONTEXTS, *JUDGED)],
    }
    log = tmp_path_factory.mktemp("logs") / "configs.log"
    found: list[dict[str, Any]] = run_worker(Path(find_engine().python), WORKER, asked, log=log).result["answers"]
    return found


def test_context_lengths(tmp_path: Path, answers: list[dict[str, Any]]) -> None:
    differing = []
    for number, (config, answer) in enumerate(zip(CONTEXTS, answers, strict=False)):
        model = write_model(tmp_path / str(number), whole(config), {})
        found = analyze(resolve_model(str(model)), vllm_version="0.32.0", platform="cpu")
        if "error" not in answer and found.max_model_len != answer["max_model_len"]:
            differing.append(f"{config}: {found.max_model_len} instead of {answer['max_model_len']}")
    assert sum("error" not in answer for answer in answers[: len(CONTEXTS)]) >= 50
    assert not differing


def test_refusals(tmp_path: Path, answers: list[dict[str, Any]]) -> None:
    differing = []
    for number, (config, answer) in enumerate(zip(JUDGED, answers[len(CONTEXTS) :], strict=True)):
        refused = refuses(tmp_path / str(number), whole(config))
        elsewhere = refused and any(key in refused for key in ELSEWHERE)
        if bool(refused) != ("error" in answer) and not elsewhere:
            differing.append(f"{config}: {refused or 'taken'}, and vLLM says {answer}")
    assert not differing


def refuses(folder: Path, config: dict[str, Any]) -> str:
    """What AutoAdapter says against the config; empty where it says nothing."""
    model = write_model(folder, config, {})
    try:
        found = analyze(resolve_model(str(model)), vllm_version="0.32.0", platform="cuda")
    except BrokenCheckpointError as error:
        return str(error)
    blockers = [one for one in found.findings if one.level is Level.BLOCKER and one.code.endswith(".refused")]
    return " ".join(one.message for one in blockers)
