"""The backends of `optimize`, one file each."""

from autoadapter.artifacts import Scheme
from autoadapter.errors import UserError
from autoadapter.optimize.backend import Backend
from autoadapter.optimize.backends.convert import Convert
from autoadapter.optimize.backends.llmcompressor import LlmCompressor

BACKENDS: tuple[type[Backend], ...] = (Convert, LlmCompressor)

__all__ = ["BACKENDS", "Convert", "LlmCompressor", "backend_for"]


def backend_for(scheme: Scheme) -> Backend | None:
    """The backend of a plan's scheme with the plan's options; None when nothing is quantized.

    Raises:
        UserError: the plan names a backend, a scheme or an option that does not exist.
    """
    if scheme.backend is None:
        return None
    kind = next((kind for kind in BACKENDS if kind.name == scheme.backend), None)
    if kind is None or scheme.name not in kind.schemes:
        known = ", ".join(name for each in BACKENDS for name in each.schemes)
        raise UserError(f"No backend makes the scheme {scheme.name!r} ({scheme.backend}).", hint=f"Known: {known}")
    try:
        return kind.model_validate(scheme.options)
    except ValueError as error:
        problem = "; ".join(str(error).splitlines()[1:3]).strip()
        raise UserError(f"The options of the scheme {scheme.name} are wrong: {problem}.", hint=_REPLAN) from None


_REPLAN = "autoadapter generate --force"
