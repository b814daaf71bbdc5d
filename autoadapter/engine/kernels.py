"""Which GPUs run which quantized checkpoints, as data: rows of `kernels.yaml`."""

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from autoadapter.artifacts import Frozen, ModelProfile
from autoadapter.artifacts.model_profile import QuantizationTraits
from autoadapter.once import once_each
from autoadapter.tables import read_table

Weights = Literal["fp8", "fp8_block", "int8", "int4", "nvfp4", "mxfp4", "mxfp8", "bnb"]
"""Kinds of quantized weights."""
PLAIN = ("bfloat16", "float16", "float32")
CONVERTED = "gguf"
"""Method of checkpoints that `optimize` turns into plain safetensors before any engine sees them."""
BY_METHOD: dict[str, Weights] = {
    "fbgemm_fp8": "fp8",
    "gptq": "int4",
    "awq": "int4",
    "modelopt_fp4": "nvfp4",
    "modelopt_mxfp8": "mxfp8",
    "mxfp4": "mxfp4",
    "gpt_oss_mxfp4": "mxfp4",
    "bitsandbytes": "bnb",
}
"""Methods that have one kind; the others tell it by blocks, bits and stored dtypes."""


class KernelRun(Frozen):
    """What runs a kind of weights on a range of compute capabilities."""

    from_: str = Field(alias="from")
    to: str | None = None
    kernel: str
    rate: Literal["bf16", "fp8", "int8", "fp4"]
    """The matrix unit that it feeds."""
    native: bool
    """Whether the GPU gains the speed that the checkpoint's format promises."""

    def covers(self, capability: tuple[int, ...]) -> bool:
        """Whether a GPU is in the range."""
        return _numbers(self.from_) <= capability and (self.to is None or capability <= _numbers(self.to))


class KernelRow(Frozen):
    """A row of `kernels.yaml`."""

    name: str
    methods: tuple[str, ...]
    weights: Weights
    until: str | None = None
    """Last vLLM release that has it; None for those that still do."""
    runs: tuple[KernelRun, ...]
    source: str

    def run_on(self, capability: str) -> KernelRun | None:
        """What vLLM takes on a GPU of a compute capability such as `9.0`; None where nothing runs."""
        return next((run for run in self.runs if run.covers(_numbers(capability))), None)

    def is_gone(self, vllm_version: str) -> bool:
        """Whether a vLLM release no longer has the method."""
        return self.until is not None and _numbers(vllm_version) > _numbers(self.until)


def _numbers(text: str) -> tuple[int, ...]:
    digits = ("".join(filter(str.isdigit, part)) for part in text.partition("+")[0].split(".")[:3])
    return tuple(int(part or 0) for part in digits)


@cache
def kernels() -> tuple[KernelRow, ...]:
    """All rows, in the file's order."""
    rows = read_table(Path(__file__).with_name("kernels.yaml"))
    return tuple(KernelRow.model_validate(row) for row in rows)


def weights_of(profile: ModelProfile) -> Weights | None:
    """The kind of quantized weights that the engine gets; None where it gets none or the checkpoint does not tell."""
    quantization = profile.quantization
    if quantization is None or quantization.method == CONVERTED:
        return None
    if quantization.method in BY_METHOD:
        return BY_METHOD[quantization.method]
    return _from_sizes(quantization, set(profile.tensors.parameters_by_dtype))


def _from_sizes(quantization: QuantizationTraits, stored: set[str]) -> Weights | None:
    bits, group = quantization.bits, quantization.group_size
    if bits == 4:
        small = group is not None and group <= 16
        return "nvfp4" if small or quantization.method.startswith("modelopt") else "int4"
    is_float = quantization.method in ("fp8", "modelopt", "deepseek_v4_fp8") or bool(stored & {"F8_E4M3", "F8_E5M2"})
    if bits in (8, None) and is_float:
        blocks = quantization.block_size is not None or (quantization.method == "fp8" and group is not None)
        return "fp8_block" if blocks else "fp8"
    return "int8" if bits == 8 and "I8" in stored else None


@once_each
def kernel_row(profile: ModelProfile, dtype: str | None = None) -> KernelRow | None:
    """The row of a checkpoint's quantization, or of one operator's weights.

    Args:
        profile: of the checkpoint.
        dtype: `Operator.dtype`; None for what the checkpoint says of itself.

    Returns:
        None where nothing is quantized so, or no row is known for it.
    """
    quantization = profile.quantization
    weights = weights_of(profile) if dtype is None else _of_operator(profile, dtype)
    if quantization is None or weights is None:
        return None
    own = [row for row in kernels() if row.weights == weights]
    return next((row for row in own if quantization.method in row.methods), own[0] if own else None)


@once_each
def kernel_rows(profile: ModelProfile) -> tuple[KernelRow, ...]:
    """Rows of everything that a checkpoint holds quantized; mixed precision has several."""
    dtypes = {operator.dtype: None for group in profile.structure.groups for operator in group.operators}
    rows = [kernel_row(profile, dtype) for dtype in dtypes]
    found = {row.name: row for row in rows if row is not None}
    whole = kernel_row(profile)
    return tuple(found.values()) or (() if whole is None else (whole,))


def _of_operator(profile: ModelProfile, dtype: str) -> str | None:
    """`fp8` in blocks has kernels of its own; words that are no kind of weights fall back to the checkpoint's."""
    if dtype in PLAIN:
        return None
    if dtype == "fp8" and weights_of(profile) == "fp8_block":
        return "fp8_block"
    return dtype if any(row.weights == dtype for row in kernels()) else weights_of(profile)
