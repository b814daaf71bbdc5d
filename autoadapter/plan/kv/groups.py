"""Which caches share a block table, as vLLM groups them over the whole model.

Source: vLLM 0.32 `v1/core/kv_cache_utils.py` (`get_kv_cache_groups` and what it calls).
"""

from collections.abc import Sequence
from dataclasses import replace

from autoadapter.plan.kv.packing import pack
from autoadapter.plan.kv.promotion import fall_back, promote
from autoadapter.plan.kv.refusal import KvRefusedError
from autoadapter.plan.kv.rules import Rules
from autoadapter.plan.kv.spec import Group, LayerCache, Spec, ceil_div
from autoadapter.plan.kv.uniform import is_uniform

SIMILAR = 1.5
"""Below this ratio of the commonest to the rarest kind of layers groups are as large as the commonest kind."""


def group_caches(
    caches: Sequence[LayerCache], rules: Rules, *, hybrid_manager: bool, block_outermost: bool
) -> tuple[Group, ...]:
    """The groups; none where no layer keeps anything.

    Args:
        caches: of the whole model on one rank.
        rules: of the vLLM version.
        hybrid_manager: whether layers may hold different numbers of tokens.
        block_outermost: whether pages of all layers lie side by side in a block.

    Raises:
        KvRefusedError: vLLM finds no layout.
    """
    if not hybrid_manager:
        caches = promote(caches, rules)
    if not caches:
        return ()
    if is_uniform([cache.spec for cache in caches]):
        return (Group(tuple(caches)),)
    if block_outermost and len({cache.spec.page_bytes for cache in caches}) > 1:
        return pack(caches)
    try:
        return split_evenly(equal_pages(caches, rules))
    except KvRefusedError:
        held = fall_back(caches, rules) if rules.falls_back_to_full else None
        if held is None:
            raise
        return (Group(held),)


def equal_pages(caches: Sequence[LayerCache], rules: Rules) -> tuple[LayerCache, ...]:
    """Caches whose blocks are all as large as the largest page.

    Raises:
        KvRefusedError: some page can be neither multiplied nor padded.
    """
    largest = max(cache.spec.page_bytes for cache in caches)
    made = {spec: _enlarged(spec, largest, rules) for spec in dict.fromkeys(cache.spec for cache in caches)}
    return tuple(LayerCache(cache.layer, made[cache.spec]) for cache in caches)


def _enlarged(spec: Spec, page: int, rules: Rules) -> Spec:
    own = spec.page_bytes
    if own == page:
        return spec
    if spec.kind == "state" and rules.pads_state_pages:
        return replace(spec, padded_bytes=page)
    if own and page % own == 0 and spec.kind != "state":
        return replace(spec, block_size=spec.block_size * (page // own))
    if rules.pads_attention_pages and spec.kind not in ("mla", "state"):
        return replace(spec, padded_bytes=page)
    raise KvRefusedError(
        f"vLLM cannot give all layers pages of one size: those of {own} bytes do not become {page}.",
        hint="Another --tensor-parallel-size or --kv-cache-dtype, or a newer vLLM",
    )


def split_evenly(caches: Sequence[LayerCache]) -> tuple[Group, ...]:
    """Groups of equally many layers of one kind; the last of a kind may lack some.

    Layers are dealt out in turn, so that pipeline stages hold a part of every group.
    """
    kinds: dict[Spec, list[LayerCache]] = {}
    for cache in caches:
        kinds.setdefault(cache.spec, []).append(cache)
    counts = [len(members) for members in kinds.values()]
    size = max(counts) if max(counts) < min(counts) * SIMILAR else min(counts)
    return tuple(
        Group(tuple(members[start :: ceil_div(len(members), size)]))
        for members in kinds.values()
        for start in range(ceil_div(len(members), size))
    )
