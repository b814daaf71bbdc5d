"""Did the quantizer do what it was asked? Read from the headers of what it wrote; a silent no-op is an error."""

from collections.abc import Iterator, Mapping, Set

from autoadapter.errors import WorkerError
from autoadapter.optimize.backend import Job
from autoadapter.optimize.checkpoint import Tensor, read_headers, weight_bytes

SIZE_TOLERANCE = 0.10
_STORED: dict[str, tuple[str, str]] = {
    "int8_w8a8": ("weight", "I8"),
    "fp8_dynamic": ("weight", "F8_E4M3"),
    "w4a16_gptq": ("weight_packed", "I32"),
}
"""Scheme → how compressed-tensors stores a linear weight: tensor suffix and dtype."""
_QUANTIZED_SUFFIXES = ("weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx")


def require_quantized(job: Job, targets: list[str], estimate: int) -> None:
    """Compare the written headers with the source's and with what was asked.

    Raises:
        WorkerError: a targeted layer is not quantized, another one is, a tensor is lost or new, or the size is off.
    """
    before, after = read_headers(job.source), read_headers(job.output)
    size = weight_bytes(job.output)
    problems = [
        *([] if targets else ["no layer was targeted"]),
        *_not_quantized(after, targets, job.scheme.name),
        *_quantized_by_mistake(after, targets),
        *_lost_or_new(before, after, optional={"lm_head"} if job.profile.embedding.tied else set()),
    ]
    if abs(size - estimate) > estimate * SIZE_TOLERANCE:
        problems.append(f"the weights take {size:,} bytes, about {estimate:,} were expected")
    if problems:
        more = f" (and {len(problems) - 1} more)" if problems[1:] else ""
        message = f"The quantized checkpoint is not what {job.scheme.name} asks for."
        raise WorkerError(message, cause=problems[0] + more, log=job.logs / "quantize.log")


def _not_quantized(after: Mapping[str, Tensor], targets: list[str], scheme: str) -> Iterator[str]:
    suffix, dtype = _STORED[scheme]
    for name in targets:
        stored = after.get(f"{name}.{suffix}")
        if stored is None or stored.dtype != dtype:
            yield f"{name} is not quantized ({stored.dtype if stored else 'no ' + suffix})"
        elif f"{name}.weight_scale" not in after:
            yield f"{name} has no scale"


def _quantized_by_mistake(after: Mapping[str, Tensor], targets: list[str]) -> Iterator[str]:
    meant = set(targets)
    for name in after:
        module, _, suffix = name.rpartition(".")
        if suffix in _QUANTIZED_SUFFIXES and module not in meant:
            yield f"{module} was quantized although it should keep its dtype"


def _lost_or_new(before: Mapping[str, Tensor], after: Mapping[str, Tensor], *, optional: Set[str]) -> Iterator[str]:
    """A tied `lm_head` is optional: it may be stored or not, on either side."""
    old, new = ({name.rpartition(".")[0] for name in headers} for headers in (before, after))
    yield from (f"{name} is lost" for name in sorted(old - new - optional))
    yield from (f"{name} is new" for name in sorted(new - old - optional))
