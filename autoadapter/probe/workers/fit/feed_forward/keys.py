"""Config keys that state sizes and numbers of feed-forward blocks, the likeliest first."""

from typing import Any

from autoadapter.artifacts.decoder import Value
from autoadapter.probe.workers.fit.binding import bind, stated

CLOSE = 2e-5
"""Relative: how near a number fitted through float32 is to the one that was written."""
HIDDEN = ("hidden_size", "n_embd", "d_model")
DENSE = (
    "intermediate_size",
    "ffn_dim",
    "n_inner",
    "ffn_hidden_size",
    "dff",
    "d_ff",
    "intermediate_size_mlp",
    "dense_intermediate_size",
    "prefix_dense_intermediate_size",
    "shared_intermediate_size",
)
EXPERT = (
    "moe_intermediate_size",
    "expert_ffn_hidden_size",
    "ffn_config.ffn_hidden_size",
    "moe_ffn_hidden_size",
    "expert_intermediate_size",
    "intermediate_size",
    "ffn_dim",
)
SHARED = ("shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size")
SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
EXPERTS = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "ffn_config.moe_num_experts",
)
TOP_K = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "moe_top_k",
    "moe_topk",
    "moe_k",
    "top_k_experts",
    "ffn_config.moe_top_k",
    "num_selected_experts",
)
SCALING = ("routed_scaling_factor", "router_scaling_factor", "route_scale", "moe_routed_scaling_factor")
GROUPS = ("n_group", "num_expert_group", "n_groups")
TOPK_GROUP = ("topk_group", "topk_groups")
LIMIT = ("swiglu_limit", "swiglu_clamp", "activation_limit")
SOFTCAP = ("moe_router_logit_softcapping", "router_logit_softcapping", "router_softcap")
JITTER = ("router_jitter_noise", "router_jitter_eps", "jitter_eps")
GATE_SCALE = ("mlp_multipliers.0", "gate_multiplier", "mlp_gate_multiplier")
DOWN_SCALE = ("mlp_multipliers.1", "down_multiplier", "mlp_down_multiplier")


def size(config: Any, number: int, keys: tuple[str, ...]) -> Value:
    """An intermediate size: stated, or four times the hidden size."""
    value = bind(config, number, own(config, keys))
    return value if value.key is not None else bind(config, number, HIDDEN, factors=(4.0,))


def shared_size(config: Any, number: int) -> Value:
    """The intermediate size of the shared experts as one: stated, or that of one expert times their count."""
    counts = [stated(config, key) for key in SHARED_COUNT]
    times = tuple(float(count) for count in counts if isinstance(count, int) and count > 0)
    for names, factors in ((SHARED, (1.0,)), (EXPERT, times), (EXPERT, (1.0, 2.0, 3.0, 4.0))):
        value = bind(config, number, own(config, names), factors=factors)
        if value.key is not None:
            return value
    return value


def own(config: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """The keys that the config's JSON has itself before those that are other names for them."""
    known = config.to_dict() if hasattr(config, "to_dict") else vars(config)
    return tuple(sorted(names, key=lambda name: name.split(".")[0] not in known))


def near(config: Any, number: float, names: tuple[str, ...], seen: tuple[float, ...] = ()) -> Value:
    """A number that was fitted through float32: the config's, or else one that the calls mention, where it is as close.

    Args:
        config: the reference's text config.
        number: as fitted.
        names: keys that may state it.
        seen: plain numbers among the arguments of the block's calls.
    """
    for name in own(config, names):
        value = stated(config, name)
        if isinstance(value, int | float) and not isinstance(value, bool) and _close(value, number):
            return bind(config, value, (name,))
    return Value(number=next((one for one in seen if _close(one, number)), number))


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= CLOSE * abs(other)
