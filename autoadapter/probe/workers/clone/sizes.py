"""The small size of everything in a clone: distinct for distinct roles, so that a fitted number has one key."""

from typing import Any

from autoadapter.probe.workers.clone.keys import Stated, is_number

HIDDEN = 128
WIDE_HIDDEN = 256
"""Where the head's size follows from it, so that twice the heads have the size that kernels know."""
HEADS = 4
MORE_HEADS = 8
KV_HEADS = 2
WINDOW = 8
POSITIONS = 64
SOFTCAP = 6.0
BOUND = 1.0
SMALL = {
    "intermediate": 96,
    "dense_intermediate": 112,
    "moe_intermediate": 160,
    "shared_intermediate": 80,
    "latent": 32,
    "zero_experts": 4,
    "q_rank": 72,
    "kv_rank": 56,
    "rank": 24,
    "time_rank": 12,
    "vocab": 176,
    "max_positions": POSITIONS,
    "window": WINDOW,
    "double_window": 2 * WINDOW,
    "relative_extent": 2 * WINDOW,
    "sparse_block": 4,
    "sparse_topk": 2,
    "chunk": 16,
    "state": 16,
    "state_head_dim": 32,
    "state_groups": 2,
    "linear_key_dim": 16,
    "linear_value_dim": 24,
    "index_heads": 2,
    "index_head_dim": 32,
    "per_layer_width": 16,
    "qk_nope": 48,
    "qk_rope": 16,
    "v_head_dim": 40,
    "shared_experts": 2,
    "softcap": SOFTCAP,
    "bound": BOUND,
}
"""Upper limits: a checkpoint that has less keeps it."""
STEP = {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": 32, "intermediate": 16, "window": WINDOW}
"""By how much the next larger of several sizes under one key is larger."""


class Sizes:
    """Maps each size of a checkpoint to the clone's."""

    def __init__(self, stated: Stated) -> None:
        """Derive the sizes that depend on one another from what the checkpoint states."""
        self._stated = stated
        self.hidden_was = stated.count("hidden", HIDDEN)
        self.heads_were = stated.count("heads", HEADS)
        self.rope = min(SMALL["qk_rope"], stated.count("qk_rope", SMALL["qk_rope"]))
        self.hidden, self.heads = self._width()
        self.small = {**SMALL, "hidden": self.hidden, "heads": self.heads}
        self.small["vocab"] *= self.hidden // HIDDEN
        self.small["qk_rope"] = self.rope
        self.small["qk_head_dim"] = self.small["qk_nope"] + self.rope
        self.head_dim_was = self._head_dim_before()
        self.head_dim = self._head_dim()
        self._routing()
        if not stated.number("kv_rank"):
            self.small["index_head_dim"] = self.head_dim
        self._linear_heads()

    def _width(self) -> tuple[int, int]:
        """Hidden size and heads: more heads where nothing ties their number to the hidden size."""
        stated = self._stated
        if not stated.number("head_dim") and not stated.number("kv_heads"):
            return WIDE_HIDDEN, MORE_HEADS
        before = (stated.number("head_dim") or 0) * self.heads_were
        grouped = stated.count("kv_heads") * 4 <= self.heads_were
        return HIDDEN, MORE_HEADS if before not in (0, self.hidden_was) and grouped else HEADS

    def _head_dim_before(self) -> float:
        return self._stated.number("head_dim") or self.hidden_was / max(self.heads_were, 1)

    def _head_dim(self) -> int:
        """32, or 64 where a part of it is rotated or the heads do not add up to the hidden size."""
        if not self._stated.number("head_dim"):
            return self.hidden // self.heads
        sections = self._stated.keys.get("mrope_section")
        fraction = self._stated.keys.get("partial_rotary_factor")
        narrow = is_number(fraction) and fraction <= 1 / 4
        uneven = self.head_dim_was * self.heads_were != self.hidden_was and self.heads * 32 == self.hidden
        return 64 if sections or narrow or uneven else 32

    def _routing(self) -> None:
        groups, kept = self._stated.count("groups", 1), self._stated.count("topk_groups", 1)
        grouped = groups > 1
        self.small["experts"] = 12 if grouped else 8
        self.small["groups"] = 3 if grouped else 1
        self.small["topk_groups"] = min(kept, 2) if grouped else 1
        self.small["topk"] = 3 if grouped and kept == 1 else 4
        if self._stated.count("experts") > 4096:  # product keys: a square
            self.small["experts"] = 16

    def _linear_heads(self) -> None:
        keys, values = self._stated.count("linear_key_heads"), self._stated.count("linear_value_heads")
        self.small["linear_value_heads"] = 4
        self.small["linear_key_heads"] = 4 if keys == values else 2

    def kv_heads(self, value: int) -> int:
        """All heads, one, or two; where layers differ, twice as many for those that have more."""
        if value >= self.heads_were:
            return self.heads
        return min(value, 2 * KV_HEADS if value > self._stated.count("kv_heads", value) else KV_HEADS)

    def of(self, role: str, value: Any) -> Any:
        """The clone's size for one number of the checkpoint."""
        if role == "kv_heads":
            return self.kv_heads(value)
        if role == "head_dim":
            return self._one_head_dim(value)
        if role == "wide":
            return type(value)(round(value / self.hidden_was * 8) / 8 * self.hidden) or value
        if role == "rotary_dim":
            return max(8, 2 * round(value / self.head_dim_was * self.head_dim / 2))
        if role == "state_heads":
            return min(value, 8)
        if role in ("hidden", "heads", "qk_head_dim"):
            return self.small[role]
        small = self.small.get(role)
        return value if small is None or value <= small else small

    def _one_head_dim(self, value: int) -> int:
        stated = self._stated
        if stated.number("kv_rank") and stated.number("qk_rope"):
            if value == stated.number("qk_rope"):
                return self.rope
            return int(self.small["qk_head_dim"])
        if value == self.head_dim_was:
            return self.head_dim
        if value * self.heads_were == 2 * self.hidden_was and value == stated.keys.get("attention_head_dim"):
            return 2 * self.hidden // self.heads
        return self.head_dim + STEP["head_dim"]

    def of_list(self, role: str, values: list[Any]) -> list[Any]:
        """A list of sizes: equal stay equal, larger stay larger."""
        numbers = sorted({value for value in values if is_number(value) and value})
        first = self.of(role, numbers[0]) if numbers else 0
        step = STEP.get(role, 16)
        ranked = {number: first + rank * step for rank, number in enumerate(numbers)}
        return [ranked.get(value, value) for value in values]
