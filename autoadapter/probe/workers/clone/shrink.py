"""A checkpoint's config with every size small and everything else as it is."""

from typing import Any

from autoadapter.probe.workers.clone.depth import Depth, by_layer, choose_depth, members, per_layer
from autoadapter.probe.workers.clone.keys import Stated, is_number, key_table
from autoadapter.probe.workers.clone.rope import shrink_rope
from autoadapter.probe.workers.clone.sizes import Sizes

EPSILON = 1e-3
LAYER_ROLES = ("head_count", "depth_bound", "last_layer", "tail_count", "depth", "period")
KEPT_LISTS = ("indices", "cycle", "rope_sections", "rope_factors")


def shrink(config: dict[str, Any]) -> tuple[dict[str, Any], Depth]:
    """The clone's config, and the layers that it keeps.

    Args:
        config: complete: with the class's defaults where the checkpoint is silent.
    """
    depth = choose_depth(config)
    stated = Stated(config)
    shrinker = _Shrinker(Sizes(stated), depth)
    small = shrinker.part(config)
    _keep_products(small, stated)
    shrink_rope(config, small, shrinker.sizes)
    return small, depth


class _Shrinker:
    def __init__(self, sizes: Sizes, depth: Depth) -> None:
        self.sizes, self.depth = sizes, depth
        self._tokens: dict[int, int] = {}
        self._epsilons: dict[str, float] = {}

    def part(self, config: dict[str, Any]) -> dict[str, Any]:
        table = key_table()
        kept = {key: value for key, value in config.items() if table.role(key) != "dropped"}
        return {key: self.value(key, value) for key, value in kept.items()}

    def value(self, key: str, value: Any) -> Any:
        role = key_table().role(key)
        before = self.depth.before
        if key.endswith(("_token_id", "_token_ids", "_token_index")):
            return self._token(value)
        if by_layer(value, before):
            return self._by_layer(value)
        if isinstance(value, dict):
            return self.part(value) if key in key_table().parts else value
        if key == "attention_types" and isinstance(value, list):
            return [[self.depth.cut([kind for kinds, times in value for kind in kinds * times]), 1]]
        if per_layer(key, value, before):
            cut = self.depth.cut(value)
            if isinstance(value, str):
                return "".join(cut)
            sized = role not in (None, *LAYER_ROLES, *KEPT_LISTS) and any(map(is_number, cut))
            return self.sizes.of_list(str(role), cut) if sized else cut
        if role == "indices" and isinstance(value, list):
            return self._indices(value)
        if role == "epsilon" and is_number(value):
            return self._epsilons.setdefault(key, EPSILON * (1 + len(self._epsilons)))
        return self._number(role, value) if is_number(value) and role else value

    def _number(self, role: str, value: Any) -> Any:
        depth = self.depth
        if role == "depth":
            return depth.after if value == depth.before else value
        if role in ("head_count", "depth_bound"):
            return depth.below(value)
        if role == "tail_count":
            return depth.after - depth.below(depth.before - value)
        if role == "last_layer":
            return value if value < 0 else depth.below(value + 1) - 1
        return self.sizes.of(role, value) if value > 0 else value

    def _by_layer(self, value: dict[str, Any]) -> dict[str, Any]:
        found = {int(key): (key, inner) for key, inner in value.items()}
        result = {}
        for layer, source in enumerate(self.depth.sources):
            if source in found:
                key, inner = found[source]
                result[f"{layer:0{len(key)}}"] = self.part(inner) if isinstance(inner, dict) else inner
        return result

    def _indices(self, values: list[int]) -> list[int]:
        flags = members(values, self.depth.before)
        first = 1 if values and self.depth.before in values and 0 not in values else 0
        return [layer + first for layer, source in enumerate(self.depth.sources) if flags[source]]

    def _token(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._token(item) for item in value]
        if not is_number(value) or value < 0:
            return value
        return self._tokens.setdefault(int(value), len(self._tokens))


def _keep_products(small: dict[str, Any], stated: Stated) -> None:
    """Heads × head size = expansion × hidden size where the checkpoint has it so, and the key that states them."""
    for product in key_table().products:
        now = Stated(small)
        count, size = (stated.keys.get(product[part]) for part in ("count", "size"))
        if not is_number(count) or not is_number(size):
            continue
        expand, hidden = stated.keys.get(product["expand"]), stated.number("hidden")
        if hidden and is_number(expand) and count * size == expand * hidden:
            small[product["count"]] = int(expand * (now.number("hidden") or 0) / now.keys[product["size"]])
        if stated.keys.get(product.get("total")) == count * size:
            small[product["total"]] = small[product["count"]] * now.keys[product["size"]]
