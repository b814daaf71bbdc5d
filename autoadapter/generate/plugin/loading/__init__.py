"""From the checkpoint's names and layouts to vLLM's parameters."""

from autoadapter.generate.plugin.loading.view import LoadingView, absent_parts

__all__ = ["LoadingView", "absent_parts"]
