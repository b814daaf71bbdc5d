"""Decoder specs written by hand, with the tiny configs that they describe: what probing is expected to find."""

from typing import Any

import autoadapter
from autoadapter.artifacts.decoder import (
    Attention,
    Branch,
    DecoderSpec,
    Embedding,
    Head,
    LayerKind,
    LayerPattern,
    Mlp,
    Moe,
    Norm,
    Positions,
    Rope,
    Router,
    Value,
    WeightSource,
)

LAYER = "model.layers.{layer}."
VERSIONS = {"transformers": "5.19.0", "torch": "2.13.0"}

LLAMA_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 160,
    "hidden_size": 96,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

GPT2_CONFIG: dict[str, Any] = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "vocab_size": 160,
    "n_embd": 96,
    "n_inner": 112,
    "n_layer": 3,
    "n_head": 3,
    "n_positions": 64,
    "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu_new",
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

QWEN3_MOE_CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "vocab_size": 160,
    "hidden_size": 96,
    "intermediate_size": 112,
    "moe_intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [1],
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "attention_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def llama_spec() -> DecoderSpec:
    """Grouped queries, RMS norms, SwiGLU, neox RoPE, an untied head."""
    norm = Norm(kind="rms", eps=key(1e-5, "rms_norm_eps"))
    layer = LayerKind(
        name="dense",
        branches=(
            Branch(mixer=_attention(), input_norm=norm),
            Branch(
                mixer=Mlp(intermediate_size=key(112, "intermediate_size"), gated=True, activation="silu"),
                input_norm=norm,
            ),
        ),
    )
    sources = (
        source("model.embed_tokens.weight", "embed.weight"),
        *_attention_sources(),
        *_mlp_sources(),
        source("model.norm.weight", "norm.weight"),
        source("lm_head.weight", "head.weight"),
    )
    return _spec(LLAMA_CONFIG, kinds=(layer,), pattern=LayerPattern(kinds=(0, 0, 0)), norm=norm, weights=sources)


def gpt2_spec() -> DecoderSpec:
    """Fused and transposed projections, layer norms, learned positions, a tied head."""
    norm = Norm(kind="layer", eps=key(1e-5, "layer_norm_epsilon"), bias=True)
    attention = Attention(
        num_heads=key(3, "num_attention_heads"),
        num_kv_heads=key(3, "num_attention_heads"),
        head_dim=Value(number=32),
        q_bias=True,
        k_bias=True,
        v_bias=True,
        o_bias=True,
        scale=Value(number=32**-0.5),
    )
    mlp = Mlp(intermediate_size=key(112, "n_inner"), gated=False, activation="gelu_new", up_bias=True, down_bias=True)
    layer = LayerKind(
        name="dense", branches=(Branch(mixer=attention, input_norm=norm), Branch(mixer=mlp, input_norm=norm))
    )
    fused = ("q_proj", "k_proj", "v_proj")
    split = {"attn.c_attn": (0, fused), "attn.c_proj": (0, ("o_proj",))}
    split |= {"mlp.c_fc": (1, ("up_proj",)), "mlp.c_proj": (1, ("down_proj",))}
    split |= {"ln_1": (0, ("input_norm",)), "ln_2": (1, ("input_norm",))}
    sources = [source("transformer.wte.weight", "embed.weight"), source("transformer.wpe.weight", "positions.weight")]
    for name, (branch, targets) in split.items():
        for end in ("weight", "bias"):
            spec_names = [f"layers.{{layer}}.{branch}.{target}.{end}" for target in targets]
            turned = end == "weight" and not name.startswith("ln")
            sources.append(source(f"transformer.h.{{layer}}.{name}.{end}", *spec_names, transposed=turned))
    sources += [source(f"transformer.ln_f.{end}", f"norm.{end}") for end in ("weight", "bias")]
    return _spec(
        GPT2_CONFIG,
        kinds=(layer,),
        pattern=LayerPattern(kinds=(0, 0, 0)),
        norm=norm,
        weights=tuple(sources),
        embedding=Embedding(positions=Positions(kind="learned", rows=key(64, "n_positions"))),
        head=Head(tied=True),
        max_positions=key(64, "n_positions"),
    )


def qwen3_moe_spec() -> DecoderSpec:
    """Norms on queries and keys, experts in all layers but one."""
    norm = Norm(kind="rms", eps=key(1e-6, "rms_norm_eps"))
    attention = _attention().model_copy(update={"q_norm": norm, "k_norm": norm})
    dense = Mlp(intermediate_size=key(112, "intermediate_size"), gated=True, activation="silu")
    sparse = Moe(
        num_experts=key(8, "num_experts"),
        router=Router(score="softmax", top_k=key(2, "num_experts_per_tok"), renormalize=True),
        expert=Mlp(intermediate_size=key(64, "moe_intermediate_size"), gated=True, activation="silu"),
    )
    kinds = tuple(
        LayerKind(name=name, branches=(Branch(mixer=attention, input_norm=norm), Branch(mixer=mixer, input_norm=norm)))
        for name, mixer in (("sparse", sparse), ("dense", dense))
    )
    experts = tuple(
        source(
            f"{LAYER}mlp.experts.{{expert}}.{name}.weight",
            f"layers.{{layer}}.1.experts.{name}.weight",
            kinds=(0,),
            experts="named",
        )
        for name in ("gate_proj", "up_proj", "down_proj")
    )
    sources = (
        source("model.embed_tokens.weight", "embed.weight"),
        *_attention_sources(),
        *(
            source(f"{LAYER}self_attn.{name}.weight", f"layers.{{layer}}.0.{name}.weight")
            for name in ("q_norm", "k_norm")
        ),
        *_mlp_sources(kinds=(1,)),
        source(f"{LAYER}mlp.gate.weight", "layers.{layer}.1.router.weight", kinds=(0,)),
        *experts,
        source("model.norm.weight", "norm.weight"),
        source("lm_head.weight", "head.weight"),
    )
    return _spec(QWEN3_MOE_CONFIG, kinds=kinds, pattern=LayerPattern(kinds=(0, 1, 0)), norm=norm, weights=sources)


def key(number: float, name: str, **how: Any) -> Value:
    """A number that the config states."""
    return Value(number=number, key=name, **how)


def source(checkpoint: str, *targets: str, **how: Any) -> WeightSource:
    """Where spec parameters lie in the checkpoint."""
    return WeightSource(checkpoint=checkpoint, targets=targets, **how)


def _attention() -> Attention:
    return Attention(
        num_heads=key(4, "num_attention_heads"),
        num_kv_heads=key(2, "num_key_value_heads"),
        head_dim=key(32, "head_dim"),
        scale=key(32**-0.5, "head_dim", form="inverse_square_root"),
        rope=Rope(
            style="neox",
            rotary_dim=key(32, "head_dim"),
            parameters="rope_parameters",
            theta=key(500.0, "rope_parameters.rope_theta"),
        ),
    )


def _attention_sources() -> tuple[WeightSource, ...]:
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    return (
        *(source(f"{LAYER}self_attn.{name}.weight", f"layers.{{layer}}.0.{name}.weight") for name in names),
        source(f"{LAYER}input_layernorm.weight", "layers.{layer}.0.input_norm.weight"),
        source(f"{LAYER}post_attention_layernorm.weight", "layers.{layer}.1.input_norm.weight"),
    )


def _mlp_sources(kinds: tuple[int, ...] = ()) -> tuple[WeightSource, ...]:
    return tuple(
        source(f"{LAYER}mlp.{name}.weight", f"layers.{{layer}}.1.{name}.weight", kinds=kinds)
        for name in ("gate_proj", "up_proj", "down_proj")
    )


def _spec(config: dict[str, Any], **parts: Any) -> DecoderSpec:
    defaults: dict[str, Any] = {
        "tool_version": autoadapter.__version__,
        "architecture": config["architectures"][0],
        "model_type": config["model_type"],
        "hidden_size": key(96, "hidden_size"),
        "vocab_size": key(160, "vocab_size"),
        "num_layers": key(3, "num_hidden_layers"),
        "max_positions": key(64, "max_position_embeddings"),
        "embedding": Embedding(),
        "head": Head(tied=False),
        "config_seen": config,
        "replay_error": 0.0,
        "reference": VERSIONS,
    }
    return DecoderSpec(**{**defaults, **parts})
