"""The stage: reference → quantized checkpoint → what it cost."""

from pathlib import Path

from autoadapter import __version__
from autoadapter.artifacts import OptimizedModel
from autoadapter.errors import DoesNotFitError
from autoadapter.optimize import quality as quality_of
from autoadapter.optimize.backend import Backend, Job
from autoadapter.optimize.backends import backend_for
from autoadapter.optimize.capacity import require_disk, require_memory
from autoadapter.optimize.checkpoint import hash_files, open_permissions, weight_bytes
from autoadapter.optimize.environments import environment
from autoadapter.optimize.reference import Reference, prepare_reference, require_trust
from autoadapter.optimize.request import OptimizeRequest
from autoadapter.optimize.texts import calibration_file
from autoadapter.progress import Progress, silent
from autoadapter.rendering import replace_folder, write_atomically


def optimize(request: OptimizeRequest, progress: Progress = silent) -> OptimizedModel:
    """Make the checkpoint that the plan asks for, and measure what it lost.

    All that can be known to fail is refused before anything is loaded. `request.folder` appears when all is done.

    Raises:
        UserError: the plan, the calibration file or the checkpoint is wrong, or its own code is not allowed.
        DoesNotFitError: the scheme does not suit the model or the hardware, or memory is short.
        StorageError: the disk is too small.
        MissingPartError: the quantizer's environment cannot be created.
        WorkerError: a tool failed, or did not do what it was asked.
    """
    backend = backend_for(request.plan.scheme)
    if backend is None:
        return _as_is(request, prepare_reference(request, progress), progress)
    _refuse_early(request, backend)
    calibration = calibration_file(request.calibration)
    python = environment(backend.environment, progress) if backend.environment else request.python
    reference = prepare_reference(request, progress)
    with replace_folder(request.folder) as draft:
        output = draft / "model"
        output.mkdir()
        job = Job(
            profile=request.profile,
            scheme=request.plan.scheme,
            source=reference.folder,
            output=output,
            logs=request.logs,
            python=python,
            calibration=calibration,
            samples=request.samples,
            trust_remote_code=request.trust_remote_code,
            progress=progress,
        )
        return _quantize(request, backend, reference, job)


def _refuse_early(request: OptimizeRequest, backend: Backend) -> None:
    profile, plan = request.profile, request.plan
    judgement = backend.judge(profile, plan.hardware, plan.scheme)
    if not judgement.ok:
        raise DoesNotFitError(
            f"{plan.scheme.name} does not suit {profile.ref.name}: {judgement.reason}.",
            hint="Serve the checkpoint as it is: autoadapter generate --scheme as_is",
        )
    require_trust(request)
    require_disk(request.folder, backend.estimate(profile, plan.scheme), f"Quantizing to {plan.scheme.name}")
    require_memory(profile, f"Quantizing to {plan.scheme.name}")


def _as_is(request: OptimizeRequest, reference: Reference, progress: Progress) -> OptimizedModel:
    progress("hashing what will be served")
    with replace_folder(request.folder) as draft:
        made = _artifact(request, reference, lies_at=reference.folder, served_from=reference.folder)
        write_atomically(draft / made.file_name, made.to_json())
    return made


def _quantize(request: OptimizeRequest, backend: Backend, reference: Reference, job: Job) -> OptimizedModel:
    made = backend.run(job)
    open_permissions(job.output)
    final = request.folder.resolve() / job.output.name
    quality, measuring = quality_of.measure(job, job.output, final)
    job.progress("hashing what will be served")
    plain = _artifact(request, reference, lies_at=job.output, served_from=final)
    artifact = plain.model_copy(
        update={
            "steps": (*plain.steps, made.step, measuring),
            "quality": quality,
            "findings": (*plain.findings, *made.findings, *quality_of.findings(quality)),
        }
    )
    write_atomically(job.output.parent / artifact.file_name, artifact.to_json())
    return artifact


def _artifact(request: OptimizeRequest, reference: Reference, *, lies_at: Path, served_from: Path) -> OptimizedModel:
    """The record before anything was quantized: files and sizes, and what the reference took."""
    return OptimizedModel(
        tool_version=__version__,
        plan_digest=request.plan.digest(),
        scheme=request.plan.scheme,
        model_path=str(served_from),
        reference_path=str(reference.folder),
        bytes_before=weight_bytes(reference.folder),
        bytes_after=weight_bytes(lies_at),
        files=hash_files(lies_at),
        steps=reference.steps,
        quality=None,
        findings=reference.findings,
    )
