"""The `test` stage: evidence that the served model is the right one, good, and stable."""

from autoadapter.verify.request import VerifyRequest
from autoadapter.verify.stage import verify

__all__ = ["VerifyRequest", "verify"]
