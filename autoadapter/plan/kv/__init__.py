"""The KV cache as vLLM lays it out: groups, blocks, tokens and concurrency, for a version and its flags."""

from autoadapter.plan.kv.capacity import (
    KvLayout,
    kv_capacity,
    kv_layout,
    longest_request,
    needed_bytes,
    printed_tokens,
    request_bytes,
)
from autoadapter.plan.kv.notes import kv_notes
from autoadapter.plan.kv.question import KvQuestion
from autoadapter.plan.kv.refusal import KvRefusedError

__all__ = [
    "KvLayout",
    "KvQuestion",
    "KvRefusedError",
    "kv_capacity",
    "kv_layout",
    "kv_notes",
    "longest_request",
    "needed_bytes",
    "printed_tokens",
    "request_bytes",
]
