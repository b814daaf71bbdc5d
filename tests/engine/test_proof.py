"""Proofs on a real vLLM against known answers: right code passes, wrong answers and injected faults do not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.conformance import Status
from autoadapter.conformance.attempts import (
    REFERENCE_MODULES,
    SUBJECT,
    Clone,
    attempt,
    make_clone,
    render_and_prove,
)
from autoadapter.conformance.faults import FAULTS, WEIGHT_FAULTS
from autoadapter.engine import find_engine
from autoadapter.verify.proof import Claim, ProofStatus, Servers, prove_on

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]
SAMPLE = ("rope_theta_halved", "no_rope_in_last_layer", "attention_scale_x1.1", "final_norm_weight_dropped")
TINY_EMBEDDING = 1e-3


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with Servers(find_engine(), tmp_path_factory.mktemp("proof"), reference_modules=REFERENCE_MODULES) as warm:
        yield warm


@pytest.fixture(scope="module")
def llama(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return _clone(servers, "LlamaForCausalLM", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def fitted(servers: Servers, llama: Clone) -> DecoderSpec:
    told = servers.reference(f"{SUBJECT}:fit", {"folder": str(llama.folder)}, log="fit.log")
    assert told.result is not None, told.error
    return DecoderSpec.model_validate(told.result["spec"])


def _clone(servers: Servers, architecture: str, folder: Path) -> Clone:
    made = make_clone(servers, architecture, folder / architecture)
    assert isinstance(made, Clone), made
    return made


def _edited(servers: Servers, clone: Clone, target: Path, **changes: object) -> Clone:
    request = {"folder": str(clone.folder), "target": str(target), **changes}
    assert servers.reference(f"{SUBJECT}:edit", request, log="edit.log").error is None
    return Clone(target, clone.config)


def test_vllms_own_code_is_proven_in_every_case(servers: Servers, llama: Clone) -> None:
    found = prove_on(servers, Claim(llama.folder, "vllm"))
    assert found.status is ProofStatus.PROVEN, found.reason
    assert found.answered_by.endswith("llama:LlamaForCausalLM")
    assert {case.name for case in found.cases} == {"single", "batch", "chunked", "window"}
    assert found.max_abs_logprob_diff is not None and found.max_abs_logprob_diff < 1e-4
    assert found.spread is not None and found.spread > 0.5


def test_an_answer_that_is_wrong_behind_right_tokens_is_caught(servers: Servers, tmp_path: Path) -> None:
    """The Transformers backend drops Granite's logits scale: every greedy token agrees, no probability does."""
    granite = _clone(servers, "GraniteForCausalLM", tmp_path)
    found = prove_on(servers, Claim(granite.folder, "transformers"))
    assert found.status is ProofStatus.WRONG
    assert found.argmax_agreement == 1.0


def test_a_missing_kernel_claims_nothing(servers: Servers, tmp_path: Path) -> None:
    found = prove_on(servers, Claim(_clone(servers, "MambaForCausalLM", tmp_path).folder, "vllm"))
    if servers.engine_target.platform != "cpu":
        assert found.status is ProofStatus.PROVEN, found.reason
        return
    assert (found.status, found.verdict) == (ProofStatus.NOT_RUN, "unprovable_here")
    assert "selective_scan" in found.reason


def test_rendered_code_is_proven_by_itself(servers: Servers, llama: Clone, tmp_path: Path) -> None:
    found = attempt(servers, llama, "generated", "LlamaForCausalLM", tmp_path)
    assert found.status is Status.PROVEN, found.reason
    assert found.answered_by.startswith("vllm_adapter_llama.")
    assert not found.opaque


@pytest.mark.parametrize("name", SAMPLE)
def test_a_fault_in_the_code_is_caught(
    servers: Servers, llama: Clone, fitted: DecoderSpec, tmp_path: Path, name: str
) -> None:
    assert render_and_prove(servers, llama, FAULTS[name](fitted), tmp_path / name).status is Status.WRONG


def test_a_fault_in_loading_is_caught(servers: Servers, llama: Clone, fitted: DecoderSpec, tmp_path: Path) -> None:
    swapped = _edited(servers, llama, tmp_path / "swapped", **WEIGHT_FAULTS["key_heads_swapped"](fitted))
    found = render_and_prove(servers, swapped, fitted, tmp_path / "plugin", reference=llama.folder)
    assert found.status is Status.WRONG


def test_an_epsilon_is_seen_where_activations_are_small(
    servers: Servers, llama: Clone, fitted: DecoderSpec, tmp_path: Path
) -> None:
    small = _edited(servers, llama, tmp_path / "small", scale={"model.embed_tokens.weight": TINY_EMBEDDING})
    assert render_and_prove(servers, small, fitted, tmp_path / "right").status is Status.PROVEN
    faulty = FAULTS["norm_epsilon_x10"](fitted)
    assert render_and_prove(servers, small, faulty, tmp_path / "faulty").status is Status.WRONG
