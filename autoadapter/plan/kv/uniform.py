"""Whether caches always need equally many blocks, so that one block table serves them all.

Source: vLLM 0.32 `v1/kv_cache_interface.py` (`UniformTypeKVCacheSpecs.is_uniform_type`, `is_uniform_with_collection`).
"""

from collections.abc import Sequence

from autoadapter.plan.kv.spec import EVERY_TOKEN, WINDOWS, Spec


def is_uniform(specs: Sequence[Spec]) -> bool:
    """Whether one group may hold them all, whatever their widths."""
    first = specs[0]
    if any(spec.block_size != first.block_size for spec in specs):
        return False
    return all(_alike(first, spec) for spec in specs)


def _alike(first: Spec, spec: Spec) -> bool:
    if first.kind in EVERY_TOKEN:
        return spec.kind in EVERY_TOKEN
    if first.kind == "sliding":
        return spec.kind in WINDOWS and spec.window == first.window
    if first.kind == "state":
        return spec.kind == "state" and spec.page_bytes == first.page_bytes
    return spec.kind == first.kind and (spec.window, spec.chunk) == (first.window, first.chunk)
