"""AutoAdapter: from a Hugging Face model to a proven vLLM deployment bundle."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["AutoModelAdapter", "__version__"]

if TYPE_CHECKING:
    from autoadapter.api import AutoModelAdapter


def __getattr__(name: str) -> Any:
    """Import the facade on first use, so that `import autoadapter` stays instant."""
    if name == "AutoModelAdapter":
        from autoadapter.api import AutoModelAdapter

        return AutoModelAdapter
    raise AttributeError(f"module 'autoadapter' has no attribute {name!r}")
