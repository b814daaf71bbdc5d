"""The stage: gather the evidence, let every axis read it, judge, and write down the profile."""

from collections.abc import Callable, Collection, Mapping
from typing import Literal, TypeVar

import autoadapter
from autoadapter.analyze.adapter import ADAPTER_CONFIG, adapter_error
from autoadapter.analyze.axes import AXES
from autoadapter.analyze.axes.embedding import is_tied
from autoadapter.analyze.collector import paused_collector
from autoadapter.analyze.config import Config, language_config, parse_object
from autoadapter.analyze.crosscheck import cross_check
from autoadapter.analyze.dependencies import read_dependencies
from autoadapter.analyze.gguf_config import gguf_config, gguf_findings
from autoadapter.analyze.headers.checkpoint import Checkpoint, read_checkpoint, take_census
from autoadapter.analyze.memory import memory_facts
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.analyze.routes import ModelImpl, Target, Traits, judge
from autoadapter.analyze.side_files import CONFIG, read_side_files
from autoadapter.analyze.sizes import check_sizes
from autoadapter.analyze.sources import Repository, open_repository
from autoadapter.analyze.structure import build_structure, unknown_findings
from autoadapter.artifacts import Finding, Level, ModelProfile, ModelRef, Verdict
from autoadapter.artifacts.model_profile import (
    AttentionTraits,
    EmbeddingTraits,
    MlpTraits,
    QuantizationTraits,
    RemoteCode,
    StateTraits,
)
from autoadapter.engine.target import EngineTarget
from autoadapter.errors import UserError
from autoadapter.progress import Progress, silent

MISTRAL_CONFIG = "params.json"
Value = TypeVar("Value")
Platform = Literal["cpu", "cuda"]


@paused_collector()
def analyze(
    ref: ModelRef,
    *,
    vllm_version: str | EngineTarget,
    platform: Platform,
    trust_remote_code: bool = False,
    model_impl: ModelImpl = "auto",
    progress: Progress = silent,
) -> ModelProfile:
    """Read what a model is from its headers and configs, and predict whether it runs.

    Args:
        ref: the model, from `resolve_model`.
        vllm_version: the engine that the verdict speaks of: a release, or an installed vLLM, beside which transformers
            and what the model's code imports are then looked for.
        platform: what that engine computes on.
        trust_remote_code: the user accepts code of the checkpoint; it changes findings, and nothing is run here.
        model_impl: the route that the user asks for; `auto` is the first that serves.
        progress: told about each header that is read.

    Raises:
        BrokenCheckpointError: a file is truncated, foreign, malformed, or named by an index and absent.
        UserError: the model cannot be read as it is named.
    """
    progress(f"Reading {ref.name}")
    engine = vllm_version if isinstance(vllm_version, EngineTarget) else None
    version = engine.version if engine else str(vllm_version)
    evidence = gather(open_repository(ref), progress, engine)
    check_sizes(evidence.language)
    readings = {reading.field: reading for reading in (axis(evidence) for axis in AXES)}
    tied, _ = is_tied(evidence)
    attention = _maybe(readings, "attention", AttentionTraits)
    state, quantization = _maybe(readings, "state", StateTraits), _maybe(readings, "quantization", QuantizationTraits)
    embedding = _maybe(readings, "embedding", EmbeddingTraits)
    if attention is None or embedding is None:
        raise TypeError("an axis that every model has gave no traits")
    memory = memory_facts(evidence, quantization, state, tied)
    target = Target(version, platform, memory.served_dtype, model_impl, trust_remote_code)
    structure = build_structure(evidence, embedding, memory)
    memory = memory.model_copy(update={"served_weight_bytes": memory.served_weight_bytes or structure.served_bytes})
    verdict, notes = judge(evidence, Traits(attention, state, quantization, tied), target)
    remote = _maybe(readings, "remote_code", RemoteCode)
    readings["dependencies"] = read_dependencies(evidence, remote, version)
    findings = (
        *evidence.repository.notes(),
        *evidence.checkpoint.findings,
        *(finding for reading in readings.values() for finding in reading.findings),
        *cross_check(evidence, attention, _maybe(readings, "mlp", MlpTraits)),
        *unknown_findings(evidence, embedding),
        *gguf_findings(evidence.checkpoint),
        *_whole_model(evidence, remote, trust_remote_code, verdict.route.value),
        *notes,
    )
    return ModelProfile.model_validate(
        {field: reading.value for field, reading in readings.items()}
        | {
            "tool_version": autoadapter.__version__,
            "ref": ref,
            "architecture": evidence.architecture,
            "model_type": evidence.root.text("model_type") or evidence.model_type,
            "tensors": take_census(evidence.checkpoint, quantized_bits=_bits(quantization), tied=tied),
            "memory": memory,
            "structure": structure,
            "verdict": _with_blockers(verdict, findings),
            "sources": _sources(evidence, readings),
            "findings": findings,
        }
    )


def _with_blockers(verdict: Verdict, findings: tuple[Finding, ...]) -> Verdict:
    """The verdict speaks of the architecture; what stands in the way of these files is named beside it."""
    blockers = list(dict.fromkeys(finding.code for finding in findings if finding.level is Level.BLOCKER))
    if not blockers or verdict.outcome != "will_start":
        return verdict
    reason = f"{verdict.reason} These files are not ready for it: {', '.join(blockers)}."
    return verdict.model_copy(update={"reason": reason})


def gather(repository: Repository, progress: Progress = silent, engine: EngineTarget | None = None) -> Evidence:
    """Everything that the axes may look at.

    Args:
        repository: the model's files.
        progress: told about each header that is read.
        engine: the installed vLLM that is spoken of, if any.

    Raises:
        UserError: there is neither a config.json nor GGUF metadata.
        BrokenCheckpointError: see `analyze`.
    """
    side_files = read_side_files(repository)
    checkpoint = read_checkpoint(repository, progress)
    root = _root_config(repository, side_files, checkpoint)
    language = language_config(root)
    root = language if language.data is root.data else root
    return Evidence(root, language, checkpoint, repository, side_files, engine)


def _root_config(repository: Repository, side_files: Mapping[str, bytes], checkpoint: Checkpoint) -> Config:
    label = repository.label(CONFIG)
    if CONFIG in side_files:
        return Config(parse_object(side_files[CONFIG], label), CONFIG, label)
    if checkpoint.format == "gguf":
        return gguf_config(checkpoint, repository.label(checkpoint.files[0].name))
    raise no_config(repository.location, repository.files(), repository.read)


def no_config(location: str, names: Collection[str] = (), read: Callable[[str], bytes] | None = None) -> UserError:
    """What to tell when a model has no config.json, but these files.

    Args:
        location: what the user named.
        names: of the files.
        read: gives one of them.
    """
    if ADAPTER_CONFIG in names and read is not None:
        return adapter_error(location, read)
    if MISTRAL_CONFIG in names:
        return UserError(
            f"{location} is in Mistral's own format ({MISTRAL_CONFIG}, no config.json), which is not read here.",
            hint="Name the same model in Hugging Face's format: with config.json and model*.safetensors.",
        )
    return UserError(
        f"{location} has no config.json, and not exactly one .gguf file that would replace it.",
        hint="Name the folder that holds config.json and the weights.",
    )


def _maybe(readings: Mapping[str, Reading], field: str, kind: type[Value]) -> Value | None:
    value = readings[field].value
    return value if isinstance(value, kind) else None


def _bits(quantization: QuantizationTraits | None) -> int | None:
    return quantization.bits if quantization else None


def _sources(evidence: Evidence, readings: Mapping[str, Reading]) -> dict[str, str]:
    fixed = {
        "architecture": evidence.root.source("architectures"),
        "model_type": evidence.root.source("model_type"),
        "tensors": f"{evidence.checkpoint.format} headers",
        "memory.weight_bytes": f"{evidence.checkpoint.format} headers",
        "memory.served_dtype": evidence.root.source("dtype", "torch_dtype"),
        "memory.kv_bytes_per_token": "computed from attention, layer by layer",
    }
    return fixed | {path: where for reading in readings.values() for path, where in reading.located().items()}


def _whole_model(evidence: Evidence, remote: RemoteCode | None, trusted: bool, route: str) -> tuple[Finding, ...]:
    """What concerns the model as a whole: its route through conversion, foreign code, other modalities."""
    notes = []
    if evidence.checkpoint.format in ("gguf", "pytorch"):
        kind = {"gguf": "GGUF", "pytorch": ".bin"}[evidence.checkpoint.format]
        message = f"The {kind} weights will be converted to safetensors by `optimize`."
        source = evidence.checkpoint.files[0].name
        notes.append(Finding(code="weights.convert", level=Level.INFO, message=message, source=source))
        notes += _lossy(evidence, source)
    if remote is not None and not trusted:
        notes.append(_remote(evidence, remote, route))
    if evidence.language is not evidence.root and evidence.root.found("vision_config", "audio_config"):
        message = "The model takes more than text; the language model is analyzed, the weights count all parts."
        source = evidence.root.source("vision_config", "audio_config")
        notes.append(Finding(code="model.multimodal", level=Level.INFO, message=message, source=source))
    return tuple(notes)


def _lossy(evidence: Evidence, source: str) -> list[Finding]:
    """GGUF types below 16 bits have lost something that no conversion brings back."""
    coarse = sorted({tensor.dtype for tensor in evidence.checkpoint.tensors.values()} - {"F32", "F16", "BF16", "F64"})
    if evidence.checkpoint.format != "gguf" or not coarse:
        return []
    message = f"The weights are quantized as {', '.join(coarse)}: what that lost stays lost at 16 bits."
    hint = "Where the original safetensors exist, start from them."
    return [Finding(code="weights.lossy", level=Level.WARNING, message=message, hint=hint, source=source)]


def _remote(evidence: Evidence, remote: RemoteCode, route: str) -> Finding:
    source = evidence.root.source("auto_map")
    if route == "native" and "AutoTokenizer" not in remote.auto_map:
        message = "The checkpoint brings code of its own (auto_map); vLLM's native class does not need the model's."
        return Finding(code="remote-code.unused", level=Level.INFO, message=message, source=source)
    message = "The checkpoint brings code of its own (auto_map) that a step of serving may need; it was not run."
    hint = "Read the code first; then repeat with --trust-remote-code."
    return Finding(code="remote-code.untrusted", level=Level.WARNING, message=message, hint=hint, source=source)
