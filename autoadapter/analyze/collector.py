"""Python's collector of cycles, held off while a hundred thousand objects are made that are in none."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Without it reading large headers would take twice as long: every collection looks at all tensors again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
