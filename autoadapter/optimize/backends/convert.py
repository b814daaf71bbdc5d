"""GGUF or `.bin` → a safetensors folder that vLLM, the quantizers and the reference model can read."""

from typing import ClassVar

from autoadapter.artifacts import Finding, Hardware, Level, ModelProfile, Scheme
from autoadapter.errors import WorkerError
from autoadapter.optimize.backend import Backend, Job, Judgement, Made
from autoadapter.optimize.checkpoint import copy_companions, merge_config, read_headers
from autoadapter.optimize.steps import run_step

PARAMETER_TOLERANCE = 0.005
"""GGUF files carry rope tables that the model computes itself; anything beyond is a loss."""


class Convert(Backend):
    """Dequantizes GGUF and re-packs `.bin` through transformers; fp32 becomes bf16."""

    name: ClassVar[str] = "convert"
    schemes: ClassVar[tuple[str, ...]] = ()

    def judge(self, profile: ModelProfile, hardware: Hardware, scheme: Scheme) -> Judgement:  # noqa: ARG002
        """Refuse what transformers cannot read in one go."""
        census = profile.tensors
        if census.format == "none":
            return Judgement(False, "the checkpoint holds no weights")
        if census.format == "gguf" and len(census.files) != 1:
            return Judgement(
                False, f"the GGUF is split into {len(census.files)} files; merge them with llama-gguf-split"
            )
        return Judgement(True)

    def estimate(self, profile: ModelProfile, scheme: Scheme) -> int:  # noqa: ARG002
        """Two bytes a parameter."""
        return profile.tensors.parameters * 2

    def run(self, job: Job) -> Made:
        """Convert, then check that no parameter was lost."""
        gguf = job.source.name if job.profile.tensors.format == "gguf" else None
        folder = job.source.parent if job.source.is_file() else job.source
        dtype = target_dtype(job.profile)
        request = {"source": str(folder), "gguf_file": gguf, "output": str(job.output), "dtype": dtype,
                   "trust_remote_code": job.trust_remote_code}  # fmt: skip
        outcome, step = run_step("convert", self.name, job, request)
        if gguf is None:
            copy_companions(folder, job.output)
            merge_config(folder, job.output, dtype)
        _require_complete(job, outcome.result["parameters"])
        return Made(step, tuple(_findings(job, outcome.result["unused"])))


def target_dtype(profile: ModelProfile) -> str:
    """The 16-bit dtype to store: fp16 stays fp16, everything else becomes bf16."""
    return "float16" if profile.memory.served_dtype.rpartition(".")[2] in ("float16", "half") else "bfloat16"


def _require_complete(job: Job, parameters: int) -> None:
    expected = job.profile.tensors.parameters
    written = sum(tensor.elements for tensor in read_headers(job.output).values())
    for found, where in ((parameters, "the model"), (written, "the written files")):
        if abs(found - expected) > expected * PARAMETER_TOLERANCE:
            problem = f"{where} hold {found:,} parameters, the checkpoint {expected:,}"
            raise WorkerError("The conversion is not complete.", cause=problem, log=job.logs / "convert.log")


def _findings(job: Job, unused: list[str]) -> list[Finding]:
    source = job.source.name
    found = []
    if unused:
        message = f"{len(unused)} tensors of the checkpoint belong to no part of the model, first {unused[0]}."
        found.append(Finding(code="optimize.unused-tensors", level=Level.WARNING, message=message, source=source))
    if job.profile.tensors.format == "gguf":
        message = (
            "The weights were dequantized from GGUF: they keep the loss of that quantization at the size of 16 bits."
        )
        hint = "Where the original safetensors exist, start from them."
        found.append(Finding(code="optimize.dequantized", level=Level.INFO, message=message, hint=hint, source=source))
    return found
