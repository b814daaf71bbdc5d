"""Sizes counted from configurations of hybrids and latent experts, against what their makers state."""

import pytest

from autoadapter.artifacts import ModelProfile
from autoadapter.artifacts.model_profile import AttentionTraits, EmbeddingTraits, MlpTraits, MoeTraits, StateTraits
from autoadapter.errors import DoesNotFitError
from autoadapter.plan import make_plan
from autoadapter.plan.census import LayerCounts, census, layer_counts, unreliable_estimate
from tests.unit.plan.sketches import GIB, gpu, llama_70b, profile, qwen3_30b, smollm2, wish

LETTERS = {"M": "state", "*": "full_attention", "E": "none", "-": "none"}


def nemotron(pattern: str, hidden: int, moe: MoeTraits | None, *, width: int) -> ModelProfile:
    """Nemotron-H: each layer is one thing."""
    model = profile(
        name="example/nemotron",
        parameters=1,
        embedding=EmbeddingTraits(vocab_size=131_072, hidden_size=hidden, tied=False),
        attention=AttentionTraits(
            kind="hybrid",
            num_layers=len(pattern),
            num_attention_heads=32,
            num_key_value_heads=2,
            head_dim=128,
            layer_types=tuple(LETTERS[letter] for letter in pattern),
        ),
        mlp=MlpTraits(intermediate_size=width, activation="relu2", gated=False),
        moe=moe,
        kv_bytes_per_token=pattern.count("*") * 1024,
        architecture="NemotronHForCausalLM",
        model_type="nemotron_h",
    )
    state = StateTraits(kind="mamba2", num_layers=pattern.count("M"), bytes_per_request=GIB // 16)
    return blind(model.model_copy(update={"state": state}))


def blind(model: ModelProfile) -> ModelProfile:
    """The same from its config alone."""
    return model.model_copy(update={"memory": model.memory.model_copy(update={"served_weight_bytes": 0})})


def nano_30b() -> ModelProfile:
    moe = MoeTraits(num_experts=128, num_experts_per_tok=6, moe_intermediate_size=1856, num_shared_experts=1)
    pattern = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
    return nemotron(pattern, 2688, moe, width=1856)


def super_120b() -> ModelProfile:
    moe = MoeTraits(
        num_experts=512, num_experts_per_tok=22, moe_intermediate_size=2688, num_shared_experts=1, latent_size=1024
    )
    pattern = "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"
    return nemotron(pattern, 4096, moe, width=2688)


def gibibytes(model: ModelProfile) -> float:
    count = census(model)
    return (count.tables + count.linear) * 2 / GIB


@pytest.mark.parametrize(("model", "billions"), [(nano_30b(), 31.6), (super_120b(), 120.7)])
def test_hybrids_are_counted_layer_by_layer(model: ModelProfile, billions: float) -> None:
    assert gibibytes(model) == pytest.approx(billions * 1e9 * 2 / GIB, rel=0.02)


def test_each_layer_of_nemotron_h_is_one_thing() -> None:
    assert layer_counts(nano_30b()) == LayerCounts(attending=6, recurrent=23, token_wise=23)


def test_other_hybrids_have_an_mlp_in_every_layer() -> None:
    kinds = ("state", "state", "state", "full_attention") * 8
    attention = smollm2().attention.model_copy(update={"kind": "hybrid", "num_layers": 32, "layer_types": kinds})
    state = StateTraits(kind="gated_delta_net", num_layers=24, bytes_per_request=1)
    model = smollm2().model_copy(update={"attention": attention, "state": state})
    assert layer_counts(model) == LayerCounts(attending=8, recurrent=24, token_wise=32)


def test_layers_that_lost_their_attention_keep_their_mlp() -> None:
    kinds = ("full_attention", "none") * 15
    attention = smollm2().attention.model_copy(update={"layer_types": kinds})
    model = smollm2().model_copy(update={"attention": attention})
    assert layer_counts(model) == LayerCounts(attending=15, recurrent=0, token_wise=30)


def test_experts_without_a_gate_have_two_matrices() -> None:
    gated = qwen3_30b()
    assert gated.mlp is not None
    plain = gated.model_copy(update={"mlp": gated.mlp.model_copy(update={"gated": False})})
    assert census(plain).experts * 3 == census(gated).experts * 2


def test_an_unreliable_estimate_is_called_so() -> None:
    """DeciLM states its widths block by block, which a profile does not carry."""
    model = blind(llama_70b()).model_copy(
        update={"mlp": None, "sources": {"attention.layer_types": "config.json:block_configs"}}
    )
    plan = make_plan(model, wish(gpu("h200", 4), scheme="as_is"))
    finding = next(finding for finding in plan.findings if finding.code == "plan.estimate-unreliable")
    assert "its layers differ in width, block by block" in finding.message
    with pytest.raises(DoesNotFitError, match="a guess: its layers differ") as caught:
        make_plan(model, wish(gpu("t4"), scheme="as_is"))
    assert caught.value.hint == "Download the weights and plan again: the size is then read, not guessed."


def test_a_model_without_a_stated_mlp_is_not_trusted() -> None:
    assert unreliable_estimate(blind(llama_70b())) is None
    missing = unreliable_estimate(blind(llama_70b()).model_copy(update={"mlp": None}))
    assert missing is not None
    assert "does not state the width of its MLP" in missing
