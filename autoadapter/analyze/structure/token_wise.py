"""Matrices of the token-wise block: one dense block, or routed experts with what stands around them.

Shapes: the models' own code in vLLM 0.32 (`model_executor/models/`).
"""

from autoadapter.analyze.config import Config
from autoadapter.analyze.dense import is_gated, layer_width
from autoadapter.analyze.experts import SHARED, SHARED_WIDTH, TOP_K, WIDTH, expert_count
from autoadapter.analyze.kv_cache import HIDDEN
from autoadapter.analyze.layers import NEMOTRON_H
from autoadapter.analyze.structure.parts import SHARED_EXPERT, Matrix, Parts, Vector, names_of

BIAS = {
    "gpt2", "gpt_neox", "opt", "bloom", "phi", "gptj", "codegen", "gpt_bigcode", "gpt_neo", "bert", "roberta",
    "xlm-roberta", "starcoder2", "biogpt", "xglm",
}  # fmt: skip
"""Families whose dense blocks have biases unless the config says otherwise."""
WITH_SHARED = {"llama4_text": 1}
"""Families with a shared expert that the config does not speak of, and how many widths it has."""
NUMBERED = {
    "mixtral",
    "phimoe",
    "minimax",
    "minimax_m2",
    "minimax_m3",
    "minimax_m3_vl",
    "lfm2",
    "lfm2_moe",
    "kimi_linear",
}
"""Families whose checkpoints number the experts' matrices."""
NUMBERS = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}
ONE_WIDTH = ("qwen", "granite", *NEMOTRON_H, "step3p", "minimax_m", "llama4")
"""Beginnings of the model types whose shared width is that of all shared experts together."""


def token_wise_parts(config: Config, layer: int, kind: str) -> Parts:
    """What follows the mixer of one layer.

    Args:
        config: the language model's.
        layer: its number.
        kind: `dense`, `moe` or `none`.
    """
    if kind == "none":
        return Parts()
    return _experts(config, layer) if kind == "moe" else dense_parts(config, layer)


def dense_parts(config: Config, layer: int) -> Parts:
    """A dense block of one layer."""
    model_type = config.text("model_type") or ""
    block = names_of(model_type).dense
    bias = config.flag("mlp_bias", "use_bias", "bias", "enable_bias", "add_bias_linear")
    biased = bias is True if bias is not None and model_type not in ("phi", "gpt2") else model_type in BIAS
    return _block(config, block, layer_width(config, layer), biased=biased)


def _block(config: Config, module: str, width: int, *, biased: bool = False, prefix: str = "") -> Parts:
    hidden = config.integer(*HIDDEN) or 0
    ups = ("gate_proj", "up_proj") if is_gated(config) else ("up_proj",)
    matrices = [
        Matrix(f"{prefix}{name}", f"{module}.{name}", hidden, width, "split", bias=width * biased) for name in ups
    ]
    matrices.append(Matrix(f"{prefix}down_proj", f"{module}.down_proj", width, hidden, "split", bias=hidden * biased))
    return Parts(tuple(matrices))


def _experts(config: Config, layer: int) -> Parts:
    model_type = config.text("model_type") or ""
    names = names_of(model_type)
    hidden, count = config.integer(*HIDDEN) or 0, _layer_experts(config, layer)
    module = f"{names.moe}." if names.moe else ""
    router = Matrix("gate", f"{module}gate", hidden, count, "replicated", quantizable=False)
    parts = Parts((router,), (Vector(count),) if _corrects(config) else ())
    parts = parts.plus(_routed(config, module, layer, count)).plus(_shared(config, names.moe, names.shared))
    return parts.plus(dense_parts(config, layer)) if config.flag("enable_moe_block") else parts


def _layer_experts(config: Config, layer: int) -> int:
    blocks = config.objects("block_configs")
    own = blocks[layer].get("n_routed_experts") if layer < len(blocks) else None
    return own if isinstance(own, int) and own > 0 else expert_count(config)[0]


def _corrects(config: Config) -> bool:
    return config.flag("use_routing_bias", "use_moe_router_bias") is True or config.text("topk_method") == "noaux_tc"


def _routed(config: Config, module: str, layer: int, count: int) -> Parts:
    hidden = config.integer(*HIDDEN) or 0
    latent = config.integer("moe_latent_size", "routed_expert_hidden_size")
    width, inputs = _expert_width(config, layer), latent or hidden
    biased = config.text("model_type") == "gpt_oss"
    ups = ("gate_proj", "up_proj") if is_gated(config) else ("up_proj",)
    shapes = [(name, inputs, width) for name in ups] + [("down_proj", width, inputs)]
    active = min(count, _top_k(config, layer))
    stored = NUMBERS if config.text("model_type") in NUMBERED else {}
    matrices = tuple(
        Matrix(
            name=f"experts.{name}",
            module=f"{module}experts.0.{stored.get(name, name)}",
            inputs=wide,
            outputs=high,
            split="experts",
            copies=count,
            active=active,
            bias=high * biased,
        )
        for name, wide, high in shapes
    )
    return Parts(matrices).plus(_around_latent(config, module, hidden, latent) if latent else Parts())


def _expert_width(config: Config, layer: int) -> int:
    blocks = config.objects("block_configs")
    own = blocks[layer].get("moe_intermediate_size") if layer < len(blocks) else None
    return own if isinstance(own, int) and own > 0 else config.integer(*WIDTH) or 0


def _top_k(config: Config, layer: int) -> int:
    blocks = config.objects("block_configs")
    own = blocks[layer].get("num_experts_per_tok") if layer < len(blocks) else None
    return own if isinstance(own, int) and own > 0 else config.integer(*TOP_K) or 1


def _around_latent(config: Config, module: str, hidden: int, latent: int) -> Parts:
    """Into the width of the experts and back (Nemotron-H, Kimi-K3), whole on every rank."""
    down, up = ("fc1_latent_proj", "fc2_latent_proj")
    if config.text("model_type") not in NEMOTRON_H:
        down, up = ("routed_expert_down_proj", "routed_expert_up_proj")
    matrices = (
        Matrix(down, f"{module}{down}", hidden, latent, "replicated"),
        Matrix(up, f"{module}{up}", latent, hidden, "replicated"),
    )
    return Parts(matrices, (Vector(latent),) if config.flag("latent_moe_use_norm") else ())


def shared_width(config: Config) -> int:
    """Width of all shared experts of a layer together; 0 where there are none."""
    model_type = config.text("model_type") or ""
    stated, count = config.integer(*SHARED_WIDTH), config.integer(*SHARED)
    if model_type in WITH_SHARED:
        return WITH_SHARED[model_type] * (config.integer(*WIDTH) or 0)
    if stated:
        return stated * (1 if model_type.startswith(ONE_WIDTH) or not count else count)
    return 0 if stated == 0 else (count or 0) * (config.integer(*WIDTH) or 0)


def _shared(config: Config, moe: str, name: str) -> Parts:
    width = shared_width(config)
    if not width:
        return Parts()
    module = name if not moe or name in (moe, "shared_mlp", "share_expert") else f"{moe}.{name}"
    module = f"{moe}.shared_experts" if name == moe else module
    parts = _block(config, module, width, prefix=f"{name}.")
    if not (config.text("model_type") or "").startswith(SHARED_EXPERT):
        return parts
    gate = Matrix("shared_expert_gate", f"{moe}.shared_expert_gate", config.integer(*HIDDEN) or 0, 1, "replicated")
    return parts.plus(Parts((gate,)))
