"""Windows and chunks that hold every token: without the hybrid manager, or where pages cannot be made equal.

Source: vLLM 0.32 `v1/core/kv_cache_utils.py` (`_promote_local_kv_cache_specs`, `unify_hybrid_kv_cache_specs`,
`_try_get_full_allocation_fallback_groups`).
"""

from collections.abc import Sequence
from dataclasses import replace

from autoadapter.plan.kv.refusal import KvRefusedError
from autoadapter.plan.kv.rules import Rules
from autoadapter.plan.kv.spec import EVERY_TOKEN, WINDOWS, LayerCache, Spec
from autoadapter.plan.kv.uniform import is_uniform


def promote(caches: Sequence[LayerCache], rules: Rules) -> tuple[LayerCache, ...]:
    """Caches of which each holds every token, all in one group.

    Raises:
        KvRefusedError: they do not become one kind, or have windows of several sizes.
    """
    if not caches or is_uniform([cache.spec for cache in caches]):
        return tuple(caches)
    if rules.cannot_hold_latent_windows and any(cache.spec.kind == "sliding_mla" for cache in caches):
        raise _refusal("it cannot hold windows of latents in full")
    blocks = {cache.spec.block_size for cache in caches if cache.spec.kind in EVERY_TOKEN}
    shared = next(iter(blocks)) if len(blocks) == 1 and rules.holds_windows_in_full_blocks else None
    held = tuple(LayerCache(cache.layer, _full(cache.spec, shared) if blocks else cache.spec) for cache in caches)
    if not is_uniform([cache.spec for cache in held]):
        raise _refusal("their caches cannot be made one kind")
    windows, chunks = ({cache.spec.window for cache in held}, {cache.spec.chunk for cache in held})
    if all(cache.spec.kind == "full" for cache in held) and max(len(windows - {None}), len(chunks - {None})) > 1:
        raise _refusal("they have windows of several sizes")
    return held


def _full(spec: Spec, block: int | None) -> Spec:
    if spec.kind == "sliding_mla":
        return replace(spec, kind="mla", block_size=block or spec.block_size)
    if spec.kind in ("sliding", "chunked"):
        return replace(spec, kind="full", block_size=block or spec.block_size)
    return spec


def _refusal(why: str) -> KvRefusedError:
    return KvRefusedError(
        f"Without the hybrid KV cache manager vLLM does not serve these layers: {why}.",
        hint="Leave out --disable-hybrid-kv-cache-manager",
    )


def fall_back(caches: Sequence[LayerCache], rules: Rules) -> tuple[LayerCache, ...] | None:
    """Windows beside MLA, held in full; None where vLLM has no such way out."""
    kinds = {cache.spec.kind for cache in caches}
    if "sliding_mla" in kinds or "chunked" in kinds or not {"mla"} <= kinds or not kinds & WINDOWS:
        return None
    try:
        return promote(caches, rules)
    except KvRefusedError:
        return None
