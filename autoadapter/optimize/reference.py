"""The unquantized safetensors checkpoint: the source itself, or a conversion that all plans of the model share."""

import json
from pathlib import Path

from pydantic import ValidationError

from autoadapter.artifacts import Finding, Frozen, StepRecord
from autoadapter.errors import UserError
from autoadapter.optimize.backend import Job
from autoadapter.optimize.backends import Convert
from autoadapter.optimize.capacity import require_disk, require_memory
from autoadapter.optimize.checkpoint import MANIFEST, open_permissions, visible_files
from autoadapter.optimize.request import OptimizeRequest
from autoadapter.optimize.source import local_source
from autoadapter.optimize.texts import CALIBRATION
from autoadapter.progress import Progress
from autoadapter.rendering import replace_folder, write_atomically


class Reference(Frozen):
    """Where the reference is, and how it came to be."""

    folder: Path
    steps: tuple[StepRecord, ...] = ()
    findings: tuple[Finding, ...] = ()


class Manifest(Frozen):
    """`.autoadapter.json` in a converted folder, written last: what makes it valid."""

    source: dict[str, tuple[int, int]]
    """Name → bytes and modification time (ns) of each file that was converted."""
    dtype: str
    files: dict[str, int]
    """Name → bytes of what was written."""
    steps: tuple[StepRecord, ...]
    findings: tuple[Finding, ...]


def prepare_reference(request: OptimizeRequest, progress: Progress) -> Reference:
    """Find or make the reference checkpoint.

    Raises:
        UserError: the checkpoint cannot be converted, or only by running its own code, which was not allowed.
        WorkerError: the conversion failed.
    """
    source = local_source(request.profile, trust_remote_code=request.trust_remote_code, progress=progress)
    if request.profile.tensors.format == "safetensors":
        return Reference(folder=source.resolve())
    known = _valid(request, source)
    if known is not None:
        progress("the converted checkpoint is there already")
        return Reference(folder=request.reference_folder.resolve(), steps=known.steps, findings=known.findings)
    return _convert(request, source, progress)


def _valid(request: OptimizeRequest, source: Path) -> Manifest | None:
    """The manifest of an earlier conversion of the same files, if all it wrote is still there."""
    folder = request.reference_folder
    try:
        manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
        sizes = {name: (folder / name).stat().st_size for name in manifest.files}
    except (OSError, ValidationError):
        return None
    return manifest if manifest.source == _stamps(request, source) and sizes == manifest.files else None


def _stamps(request: OptimizeRequest, source: Path) -> dict[str, tuple[int, int]]:
    paths = [source] if source.is_file() else [source / file.name for file in request.profile.tensors.files]
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


def _convert(request: OptimizeRequest, source: Path, progress: Progress) -> Reference:
    backend, profile, scheme = Convert(), request.profile, request.plan.scheme
    judgement = backend.judge(profile, request.plan.hardware, scheme)
    if not judgement.ok:
        raise UserError(f"{profile.ref.name} cannot be converted: {judgement.reason}.", hint=f"See {source}")
    require_trust(request)
    require_disk(request.reference_folder, backend.estimate(profile, scheme), "Converting the checkpoint")
    require_memory(profile, "Converting the checkpoint")
    with replace_folder(request.reference_folder) as draft:
        job = Job(
            profile=profile,
            scheme=scheme,
            source=source,
            output=draft,
            logs=request.logs,
            python=request.python,
            calibration=CALIBRATION,
            samples=0,
            trust_remote_code=request.trust_remote_code,
            progress=progress,
        )
        made = backend.run(job)
        open_permissions(draft)
        manifest = Manifest(
            source=_stamps(request, source),
            dtype=json.loads((draft / "config.json").read_text(encoding="utf-8")).get("dtype", "bfloat16"),
            files={path.name: path.stat().st_size for path in visible_files(draft)},
            steps=(made.step,),
            findings=made.findings,
        )
        write_atomically(draft / MANIFEST, manifest.model_dump_json(indent=2))
    return Reference(folder=request.reference_folder.resolve(), steps=manifest.steps, findings=manifest.findings)


def require_trust(request: OptimizeRequest) -> None:
    """Refuse to load a model whose code comes with its weights.

    Raises:
        UserError: the code was not allowed.
    """
    if request.profile.remote_code and not request.trust_remote_code:
        files = ", ".join(request.profile.remote_code.files) or "its auto_map"
        raise UserError(
            f"{request.profile.ref.name} brings its own code ({files}), which would have to run here.",
            hint="Read that code; if you trust it, repeat the command with --trust-remote-code.",
        )
