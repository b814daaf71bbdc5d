"""Weights from tensor headers: every byte has a place, and the places add up to what is served."""

from pathlib import Path

import pytest

from autoadapter.analyze.headers.checkpoint import Checkpoint
from autoadapter.analyze.headers.tensor import TensorInfo
from autoadapter.analyze.structure.measured import Serving, measure
from autoadapter.analyze.structure.names import belonging
from autoadapter.artifacts import ModelProfile, WeightShares
from tests.unit.analyze.structure_files import Json, Stored, mistral, profile_of, stored

SMALL = mistral(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
    intermediate_size=128, vocab_size=100,
)  # fmt: skip


def bf16(*shape: int) -> Stored:
    return ("BF16", shape)


def layer(number: int, root: str = "model.") -> dict[str, Stored]:
    at = f"{root}layers.{number}."
    return {
        f"{at}self_attn.q_proj.weight": bf16(64, 64),
        f"{at}self_attn.k_proj.weight": bf16(32, 64),
        f"{at}self_attn.v_proj.weight": bf16(32, 64),
        f"{at}self_attn.o_proj.weight": bf16(64, 64),
        f"{at}mlp.gate_proj.weight": bf16(128, 64),
        f"{at}mlp.up_proj.weight": bf16(128, 64),
        f"{at}mlp.down_proj.weight": bf16(64, 128),
        f"{at}input_layernorm.weight": bf16(64),
        f"{at}post_attention_layernorm.weight": bf16(64),
    }


ENDS = {
    "model.embed_tokens.weight": bf16(100, 64),
    "model.norm.weight": bf16(64),
    "lm_head.weight": bf16(100, 64),
}
PLAIN = WeightShares(split=2 * (2 * 64 * 64 + 3 * 128 * 64), kv=2 * 2 * 32 * 64, replicated=2 * 2 * 64)


def profile(folder: Path, tensors: dict[str, Stored], **config: object) -> ModelProfile:
    said: Json = SMALL | config  # type: ignore[assignment]
    return profile_of(folder, said, {"model.safetensors": stored(tensors)})


def adds_up(found: ModelProfile) -> bool:
    """Everything stored is served, in a layer, at an end, in a tower or ahead."""
    structure = found.structure
    assert structure.from_headers
    return structure.served_bytes + structure.predictor_bytes == found.memory.served_weight_bytes


def test_a_plain_model(tmp_path: Path) -> None:
    found = profile(tmp_path, ENDS | layer(0) | layer(1))
    assert adds_up(found)
    (group,) = found.structure.groups
    assert group.layers == (0, 1) and group.weights == PLAIN
    assert (found.structure.embedding_bytes, found.structure.head_bytes, found.structure.other_bytes) == (
        12800,
        12800,
        128,
    )
    assert {one.name: one.weight_bytes for one in group.operators} == {
        "q_proj": 8192, "k_proj": 4096, "v_proj": 4096, "o_proj": 8192, "gate_proj": 16384, "up_proj": 16384,
        "down_proj": 16384,
    }  # fmt: skip


def test_headers_beat_the_configuration(tmp_path: Path) -> None:
    """A config cannot know of a bias; the layer that has one stands apart."""
    odd = layer(1) | {"model.layers.1.self_attn.q_proj.bias": bf16(64)}
    groups = profile(tmp_path, ENDS | layer(0) | odd).structure.groups
    assert [(group.layers, group.weights.split - PLAIN.split) for group in groups] == [((0,), 0), ((1,), 128)]


def test_tied_head_is_held_once(tmp_path: Path) -> None:
    found = profile(tmp_path, ENDS | layer(0) | layer(1), tie_word_embeddings=True)
    assert adds_up(found) and found.structure.head_bytes == 0


def test_fused_matrices_are_shared_out(tmp_path: Path) -> None:
    names = [
        name for name in layer(0) if not any(word in name for word in ("q_proj", "k_proj", "v_proj", "gate", "up"))
    ]
    fused = {name: layer(0)[name] for name in names} | {
        "model.layers.0.self_attn.qkv_proj.weight": bf16(128, 64),
        "model.layers.0.mlp.gate_up_proj.weight": bf16(256, 64),
    }
    found = profile(tmp_path, ENDS | fused, num_hidden_layers=1)
    (group,) = found.structure.groups
    assert adds_up(found) and group.weights == PLAIN
    sizes = {one.name: one.weight_bytes for one in group.operators}
    assert (sizes["q_proj"], sizes["k_proj"], sizes["v_proj"]) == (8192, 4096, 4096)
    assert sizes["gate_proj"] == sizes["up_proj"] == 16384


@pytest.mark.parametrize("stacked", [False, True])
def test_experts(tmp_path: Path, stacked: bool) -> None:
    attention = {name: shape for name, shape in layer(0).items() if ".mlp." not in name}
    at = "model.layers.0.mlp."
    routed: dict[str, Stored]
    if stacked:
        routed = {f"{at}experts.gate_up_proj": bf16(4, 64, 64), f"{at}experts.down_proj": bf16(4, 32, 64)}
    else:
        routed = {
            f"{at}experts.{number}.{name}.weight": bf16(*shape)
            for number in range(4)
            for name, shape in (("gate_proj", (32, 64)), ("up_proj", (32, 64)), ("down_proj", (64, 32)))
        }
    rest = {f"{at}gate.weight": bf16(4, 64), f"{at}shared_experts.up_proj.weight": bf16(32, 64)}
    sizes = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1}
    found = profile(tmp_path, ENDS | attention | routed | rest, num_hidden_layers=1, model_type="qwen3_moe", **sizes)
    (group,) = found.structure.groups
    assert adds_up(found)
    assert group.weights.experts == 2 * 4 * 3 * 32 * 64
    assert group.weights.replicated == 2 * (2 * 64 + 4 * 64)
    assert {one.name: one.weight_bytes for one in group.operators if one.split == "experts"} == {
        "experts.gate_proj": 16384, "experts.up_proj": 16384, "experts.down_proj": 16384,
    }  # fmt: skip


def test_layers_that_predict_ahead(tmp_path: Path) -> None:
    ahead = layer(2) | {"model.layers.2.eh_proj.weight": bf16(64, 128)}
    found = profile(tmp_path, ENDS | layer(0) | layer(1) | ahead, num_nextn_predict_layers=1)
    assert adds_up(found)
    assert found.structure.predictor_bytes == PLAIN.total + 2 * 64 * 128
    named = {f"mtp.{name}": shape for name, shape in layer(0, "").items()}
    found = profile(tmp_path / "named", ENDS | layer(0) | layer(1) | named)
    assert adds_up(found) and found.structure.predictor_bytes == PLAIN.total


def test_buffers_are_not_served(tmp_path: Path) -> None:
    stray: dict[str, Stored] = {
        "model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", (8,)),
        "transformer.h.0.attn.bias": bf16(1, 1, 32, 32),
        "embeddings.position_ids": ("I64", (1, 8)),
    }
    found = profile(tmp_path, ENDS | layer(0) | layer(1) | stray)
    assert adds_up(found)
    assert found.structure.groups[0].weights == PLAIN and found.structure.other_bytes == 128


def test_wide_floats_are_halved_and_packed_weights_are_not(tmp_path: Path) -> None:
    wide: dict[str, Stored] = {name: ("F32", shape) for name, (_, shape) in (ENDS | layer(0) | layer(1)).items()}
    found = profile(tmp_path, wide, torch_dtype="float32")
    assert adds_up(found) and found.structure.groups[0].weights == PLAIN
    at = "model.layers.0.self_attn.k_proj."
    packed: dict[str, Stored] = {
        f"{at}qweight": ("I32", (8, 32)), f"{at}qzeros": ("I32", (1, 4)), f"{at}scales": ("F16", (1, 32)),
        f"{at}g_idx": ("I32", (64,)),
    }  # fmt: skip
    tensors = {name: shape for name, shape in layer(0).items() if "k_proj" not in name} | packed
    said = {"quant_method": "gptq", "bits": 4, "group_size": 64}
    found = profile(tmp_path / "packed", ENDS | tensors, num_hidden_layers=1, quantization_config=said)
    (group,) = found.structure.groups
    k_proj = 4 * 8 * 32 + 4 * 4 + 2 * 32 + 4 * 64
    assert adds_up(found) and group.weights.kv == k_proj + 2 * 32 * 64
    assert next(one for one in group.operators if one.name == "k_proj").weight_bytes == k_proj


def test_towers_stand_apart(tmp_path: Path) -> None:
    towers = {
        "model.vision_tower.encoder.layers.0.self_attn.k_proj.weight": bf16(8, 8),
        "model.multi_modal_projector.linear_1.weight": bf16(64, 8),
        "model.audio_tower.layers.0.fc1.weight": bf16(8, 16),
        "model.embed_vision.embedding_projection.weight": bf16(8, 64),
    }
    config: Json = {
        "text_config": SMALL,
        "vision_config": {"model_type": "siglip_vision_model"},
        "model_type": "gemma3",
    }
    found = profile_of(tmp_path, config, {"model.safetensors": stored(ENDS | layer(0) | layer(1) | towers)})
    assert adds_up(found)
    rows = [(one.modality, one.model_type, one.weight_bytes) for one in found.structure.encoders]
    assert rows == [("image", "siglip_vision_model", 2 * (64 + 512 + 512)), ("audio", "gemma3", 2 * 128)]
    assert found.structure.groups[0].weights == PLAIN


NAMES: list[tuple[str, str, str]] = [
    ("model.layers.0.self_attn.q_a_proj.weight", "layer", "replicated"),
    ("model.layers.0.self_attn.kv_a_proj_with_mqa.weight_scale_inv", "layer", "replicated"),
    ("model.layers.0.self_attn.kv_b_proj.weight", "layer", "split"),
    ("model.layers.0.self_attn.indexer.wq_b.weight", "layer", "replicated"),
    ("model.layers.0.mlp.gate.weight", "layer", "replicated"),
    ("model.layers.0.mlp.gate.e_score_correction_bias", "layer", "replicated"),
    ("model.layers.0.mlp.shared_experts.down_proj.weight", "layer", "split"),
    ("model.layers.0.block_sparse_moe.experts.0.w2.weight", "layer", "experts"),
    ("model.layers.0.block_sparse_moe.input_linear.weight", "layer", "experts"),
    ("model.layers.0.mlp.experts.gate_up_proj_blocks", "layer", "experts"),
    ("transformer.blocks.0.ffn.experts.mlp.w1", "layer", "experts"),
    ("transformer.h.0.attn.c_attn.weight", "layer", "fused"),
    ("transformer.h.0.self_attention.query_key_value.weight", "layer", "fused"),
    ("gpt_neox.layers.0.attention.query_key_value.bias", "layer", "fused"),
    ("transformer.h.0.ln_1.weight", "layer", "replicated"),
    ("model.layers.0.linear_attn.in_proj_qkvz.weight", "layer", "split"),
    ("backbone.layers.0.mixer.in_proj.weight", "layer", "split"),
    ("layers.0.attn.wq_a.weight", "layer", "replicated"),
    ("layers.0.attn.wo_a.weight", "layer", "split"),
    ("layers.0.attn.compressor.wkv.weight", "layer", "replicated"),
    ("layers.0.ffn.experts.0.w1.weight", "layer", "experts"),
    ("blk.0.attn_k.weight", "layer", "kv"),
    ("blk.0.ffn_gate_exps.weight", "layer", "experts"),
    ("blk.0.ffn_gate_shexp.weight", "layer", "split"),
    ("blk.0.ffn_gate_inp.weight", "layer", "replicated"),
    ("model.language_model.layers.0.self_attn.v_proj.weight", "layer", "kv"),
    ("token_embd.weight", "embedding", "split"),
    ("transformer.wte.weight", "embedding", "split"),
    ("model.language_model.embed_tokens_per_layer.weight", "embedding", "split"),
    ("output.weight", "head", "split"),
    ("lm_head.weight_packed", "head", "split"),
    ("embed_out.weight", "head", "split"),
    ("transformer.wpe.weight", "other", "split"),
    ("model.visual.blocks.0.attn.qkv.weight", "image", "split"),
    ("mtp.layers.0.mlp.gate_proj.weight", "predictor", "split"),
    ("model.mtp_layers.0.self_attn.q_proj.weight", "predictor", "split"),
    ("thinker.audio_tower.layers.0.fc1.weight", "audio", "split"),
]


@pytest.mark.parametrize(("name", "place", "split"), NAMES, ids=[row[0] for row in NAMES])
def test_where_a_tensor_belongs(name: str, place: str, split: str) -> None:
    found = belonging(name)
    assert (found.place, found.split) == (place, split)


def test_a_hundred_thousand_tensors(tmp_path: Path) -> None:
    tensors: dict[str, TensorInfo] = {}
    for number in range(60):
        for expert in range(256):
            for name in ("gate_proj", "up_proj", "down_proj"):
                at = f"model.layers.{number}.mlp.experts.{expert}.{name}."
                tensors[f"{at}weight"] = TensorInfo(f"{at}weight", "F8_E4M3", (2048, 7168), 2048 * 7168, "f")
                tensors[f"{at}weight_scale_inv"] = TensorInfo(f"{at}weight_scale_inv", "F32", (16, 56), 3584, "f")
    checkpoint = Checkpoint("safetensors", tensors, ())
    assert checkpoint.kinds
    found = measure(checkpoint, Serving(quantized=True, tied=False, layers=60))
    assert len(tensors) == 92_160
    assert found.layers[59].shares == {"experts": 256 * 3 * (2048 * 7168 + 3584)}
