"""What vLLM refuses when it lays out the cache."""

from autoadapter.errors import UnsupportedModelError


class KvRefusedError(UnsupportedModelError):
    """vLLM would end at start, since it cannot lay out the caches of these layers under these flags."""
