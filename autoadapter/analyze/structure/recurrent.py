"""Matrices of recurrent blocks. Shapes: the models' own code in vLLM 0.32 (`layers/mamba/`, `models/kimi_k3/`)."""

from autoadapter.analyze import kv_cache
from autoadapter.analyze.config import Config
from autoadapter.analyze.structure.parts import Matrix, Parts, Vector, names_of
from autoadapter.analyze.structure.states import kda_sizes, mamba1_width, mamba2_sizes


def recurrent_parts(config: Config, kind: str) -> Parts:
    """What a recurrent block is made of.

    Args:
        config: the language model's.
        kind: as `LayerState.kind` has it; nothing is known of other kinds.
    """
    reader = READERS.get(kind)
    return reader(config, names_of(config.text("model_type") or "").recurrent) if reader else Parts()


def _hidden(config: Config) -> int:
    return config.integer(*kv_cache.HIDDEN) or 0


def _delta_net(config: Config, block: str) -> Parts:
    """Gated delta net. Qwen3.5 stores apart what Qwen3-Next fuses; the sizes are the same."""
    hidden, heads = _hidden(config), config.integer("linear_num_value_heads") or 0
    key = (config.integer("linear_num_key_heads") or 0) * (config.integer("linear_key_head_dim") or 0)
    value_dim = config.integer("linear_value_head_dim") or 0
    value, kernel = heads * value_dim, config.integer("linear_conv_kernel_dim") or 4
    block = "linear_attn"
    matrices = (
        Matrix("in_proj_qkv", f"{block}.in_proj_qkv", hidden, 2 * key + value, "split"),
        Matrix("in_proj_z", f"{block}.in_proj_z", hidden, value, "split"),
        Matrix("in_proj_ba", f"{block}.in_proj_ba", hidden, 2 * heads, "split", quantizable=False),
        Matrix("out_proj", f"{block}.out_proj", value, hidden, "split"),
    )
    vectors = (Vector((2 * key + value) * kernel, "split"), Vector(2 * heads, "split"), Vector(value_dim))
    return Parts(matrices, vectors)


def _kda(config: Config, block: str) -> Parts:
    hidden, (heads, width, kernel) = _hidden(config), kda_sizes(config) or (0, 0, 0)
    wide = heads * width
    matrices = [Matrix(f"{part}_proj", f"{block}.{part}_proj", hidden, wide, "split") for part in "qkv"]
    matrices += [
        Matrix("f_a_proj", f"{block}.f_a_proj", hidden, width, "replicated"),
        Matrix("f_b_proj", f"{block}.f_b_proj", width, wide, "split"),
        Matrix("b_proj", f"{block}.b_proj", hidden, heads, "split"),
        Matrix("o_proj", f"{block}.o_proj", wide, hidden, "split"),
    ]
    if config.flag("linear_attn_config.use_full_rank_gate"):
        matrices.append(Matrix("g_proj", f"{block}.g_proj", hidden, wide, "split"))
    else:
        matrices.append(Matrix("g_a_proj", f"{block}.g_a_proj", hidden, width, "replicated"))
        matrices.append(Matrix("g_b_proj", f"{block}.g_b_proj", width, wide, "split"))
    return Parts(tuple(matrices), (Vector(3 * wide * kernel, "split"), Vector(wide + heads, "split"), Vector(width)))


def _short_conv(config: Config, block: str) -> Parts:
    hidden, length = _hidden(config), config.integer("conv_L_cache") or 0
    width = config.integer("conv_dim") or hidden
    matrices = (
        Matrix("in_proj", f"{block}.in_proj", hidden, 3 * width, "split"),
        Matrix("out_proj", f"{block}.out_proj", width, hidden, "split"),
    )
    return Parts(matrices, (Vector(width * length, "split"),))


def _mamba2(config: Config, block: str) -> Parts:
    hidden, sizes = _hidden(config), mamba2_sizes(config)
    if sizes is None:
        return Parts()
    convolved = sizes.inner + 2 * sizes.groups * sizes.state
    outputs = sizes.inner + convolved + sizes.heads
    bias = config.flag("mamba_proj_bias", "use_bias", "add_bias_linear") is True
    matrices = (
        Matrix("in_proj", f"{block}.in_proj", hidden, outputs, "split", bias=outputs * bias),
        Matrix("out_proj", f"{block}.out_proj", sizes.inner, hidden, "split", bias=hidden * bias),
    )
    vectors = (Vector(convolved * (sizes.kernel + 1), "split"), Vector(3 * sizes.heads + sizes.inner, "split"))
    return Parts(matrices, vectors)


def _mamba1(config: Config, block: str) -> Parts:
    hidden, inner = _hidden(config), mamba1_width(config)
    size = config.integer("state_size", "mamba_d_state") or 16
    rank = config.get(config.found("time_step_rank", "mamba_dt_rank") or "")
    low = rank if isinstance(rank, int) else -(-hidden // 16)
    kernel = config.integer("conv_kernel", "mamba_d_conv") or 4
    matrices = (
        Matrix("in_proj", f"{block}.in_proj", hidden, 2 * inner, "split"),
        Matrix("x_proj", f"{block}.x_proj", inner, low + 2 * size, "split"),
        Matrix("dt_proj", f"{block}.dt_proj", low, inner, "split", bias=inner),
        Matrix("out_proj", f"{block}.out_proj", inner, hidden, "split"),
    )
    return Parts(matrices, (Vector(inner * (kernel + 1), "split"), Vector(inner * (size + 1), "split")))


def _lightning(config: Config, block: str) -> Parts:
    hidden, wide = _hidden(config), kv_cache.attention_heads(config) * kv_cache.head_dim(config)
    block = "self_attn"
    matrices = (
        Matrix("qkv_proj", f"{block}.qkv_proj", hidden, 3 * wide, "split"),
        Matrix("output_gate", f"{block}.output_gate", hidden, wide, "split"),
        Matrix("out_proj", f"{block}.out_proj", wide, hidden, "split"),
    )
    return Parts(matrices, (Vector(wide, "split"),))


def _rg_lru(config: Config, _: str) -> Parts:
    hidden, heads = _hidden(config), kv_cache.attention_heads(config) or 1
    width = config.integer("lru_width") or hidden
    block = "temporal_block"
    matrices = (
        Matrix("linear_x", f"{block}.linear_x", hidden, width, "split", bias=width),
        Matrix("linear_y", f"{block}.linear_y", hidden, width, "split", bias=width),
        Matrix("linear_out", f"{block}.linear_out", width, hidden, "split", bias=hidden),
        Matrix("rg_lru", f"{block}.rg_lru", width, 2 * width // heads, "split", bias=2 * width),
    )
    return Parts(matrices, (Vector(width * ((config.integer("conv1d_width") or 4) + 2), "split"),))


READERS = {
    "gated_delta_net": _delta_net,
    "kda": _kda,
    "short_conv": _short_conv,
    "mamba2": _mamba2,
    "mamba": _mamba1,
    "lightning": _lightning,
    "rg_lru": _rg_lru,
}
