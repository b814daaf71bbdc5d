"""Which files of a repository are its weights: one format, and of it the files that vLLM would load."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from autoadapter.analyze.sources import Repository
from autoadapter.analyze.text import load_json
from autoadapter.artifacts import Finding, Level
from autoadapter.errors import BrokenCheckpointError, UserError

WeightFormat = Literal["safetensors", "pytorch", "gguf", "none"]
INDEXES: dict[WeightFormat, tuple[str, ...]] = {
    "safetensors": ("model.safetensors.index.json", "consolidated.safetensors.index.json"),
    "pytorch": ("pytorch_model.bin.index.json",),
}
NOT_WEIGHTS = re.compile(
    r"mmproj.*\.gguf"
    r"|(training_args|optimizer|scheduler|rng_state.*|adapter_model|tokenizer|lora.*)\.(bin|safetensors)"
)
"""Vision projectors, trainer leftovers and LoRA adapters, which vLLM's loader skips too (`weight_utils.py`)."""
SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.(safetensors|bin|gguf)")
MOST_NAMES = 16
WEIGHTS = (".safetensors", ".bin", ".gguf")
FOREIGN = (".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".npz")


@dataclass(frozen=True)
class WeightChoice:
    """The files to read, the tensors that an index promises of them, and what was noticed."""

    format: WeightFormat
    files: tuple[str, ...]
    index: str | None = None
    promised: dict[str, str] = field(default_factory=dict)
    """Tensor → file, from the index: of those that were not read yet."""
    absent: tuple[str, ...] = ()
    """Files that a stale index names and that are not there; `files` may hold their tensors under other names."""
    findings: tuple[Finding, ...] = ()


def choose_weights(repository: Repository) -> WeightChoice:
    """The weight files of a repository: safetensors before `.bin` before GGUF.

    Raises:
        BrokenCheckpointError: an index names a shard that is missing, or a numbered series has a gap.
        UserError: several GGUF files that are not parts of one.
    """
    names = list(repository.files())
    by_format: dict[WeightFormat, list[str]] = {
        "safetensors": _named(names, ".safetensors"),
        "pytorch": _named(names, ".bin"),
        "gguf": _named(names, ".gguf"),
    }
    for kind, candidates in by_format.items():
        if candidates or any(index in names for index in INDEXES.get(kind, ())):
            choice = _choose(repository, kind, candidates)
            others = [name for other, found in by_format.items() if other != kind for name in found]
            return _with_others(_with_odd(choice, repository), others)
    return _with_odd(WeightChoice("none", (), findings=(_nothing(repository, names),)), repository)


def _named(names: Iterable[str], suffix: str) -> list[str]:
    return [name for name in names if name.endswith(suffix) and not NOT_WEIGHTS.fullmatch(name)]


def _choose(repository: Repository, kind: WeightFormat, candidates: list[str]) -> WeightChoice:
    index = next((name for name in INDEXES.get(kind, ()) if name in repository.files()), None)
    if index is not None:
        return _from_index(repository, kind, index, candidates)
    plain = [name for name in candidates if not name.startswith("consolidated")] or candidates
    if kind == "pytorch":
        plain = [name for name in plain if name.startswith("pytorch_model")] or plain
    _require_whole_series(repository, plain)
    if kind == "gguf":
        _require_one_gguf(repository, plain)
    return WeightChoice(kind, tuple(plain), findings=_strays(candidates, plain, "no index names it"))


def _from_index(repository: Repository, kind: WeightFormat, index: str, candidates: list[str]) -> WeightChoice:
    promised = _weight_map(repository, index)
    files = sorted(set(promised.values()))
    missing = tuple(name for name in files if name not in repository.files())
    unnamed = [name for name in candidates if name not in files and not name.startswith("consolidated")]
    if missing and unnamed:
        present = tuple(sorted({*unnamed, *files} - {*missing}))
        return WeightChoice(kind, present, index, promised, missing)
    if missing:
        raise missing_shards(repository, index, missing)
    findings = _strays(candidates, files, f"{index} does not name it")
    return WeightChoice(kind, tuple(files), index, promised, findings=findings)


def missing_shards(repository: Repository, index: str, missing: tuple[str, ...]) -> BrokenCheckpointError:
    """What to tell when an index names files that are not there."""
    if len(missing) == 1:
        problem = f"names the shard {missing[0]}, and the file is {repository.not_files().get(missing[0]) or 'missing'}"
    else:
        more = f" and {len(missing) - MOST_NAMES} more" if len(missing) > MOST_NAMES else ""
        problem = f"names {len(missing)} shards that are missing: {', '.join(missing[:MOST_NAMES])}{more}"
    hint = "Download the missing shards, then repeat the command."
    return BrokenCheckpointError(repository.label(index), problem, hint=hint)


def stale_index(choice: WeightChoice) -> Finding:
    """What to tell when files under other names hold everything that the index promises."""
    absent, files = choice.absent, choice.files
    message = (
        f"{choice.index} names {len(absent)} files that are missing ({absent[0]} …), and {len(files)} others hold "
    )
    message += f"all of its tensors ({files[0]} …); vLLM goes by the index and would find no weights."
    hint = "Write the index again from these files (nothing is lost), or remove it."
    return Finding(
        code="weights.stale-index", level=Level.BLOCKER, message=message, hint=hint, source=str(choice.index)
    )


def _weight_map(repository: Repository, index: str) -> dict[str, str]:
    label = repository.label(index)
    document = load_json(repository.read(index), label)
    rows = document.get("weight_map") if isinstance(document, dict) else None
    table = {name: file for name, file in rows.items() if isinstance(file, str)} if isinstance(rows, dict) else {}
    if not isinstance(rows, dict) or not table or len(table) < len(rows):
        raise BrokenCheckpointError(label, "has no weight_map of tensor names to files")
    escaping = next((name for name in table.values() if "/" in name or name.startswith(".")), None)
    if escaping is not None:
        raise BrokenCheckpointError(label, f"names {escaping!r}, which is no file of this folder")
    return table


def _require_whole_series(repository: Repository, names: list[str]) -> None:
    for match in filter(None, map(SHARD.fullmatch, names)):
        total = int(match["total"])
        numbers = {
            int(other["number"])
            for other in filter(None, map(SHARD.fullmatch, names))
            if (other["stem"], other["total"]) == (match["stem"], match["total"])
        }
        missing = sorted(set(range(1, total + 1)) - numbers) if total <= 10_000 else []
        if missing:
            raise BrokenCheckpointError(
                repository.label(match[0]),
                f"is one of {total} shards, and number {missing[0]} is missing",
                hint="Download the missing shards, then repeat the command.",
            )


def _require_one_gguf(repository: Repository, names: list[str]) -> None:
    matches = [SHARD.fullmatch(name) for name in names]
    series = {match["stem"] if match else name for match, name in zip(matches, names, strict=True)}
    if len(series) > 1:
        raise UserError(
            f"{repository.location} holds {len(series)} GGUF models and no other weights.",
            hint=f"Name one of them, as a file on this machine: {names[0]}",
        )


def _strays(candidates: list[str], taken: list[str], why: str) -> tuple[Finding, ...]:
    left = [name for name in candidates if name not in taken]
    if not left:
        return ()
    listed = ", ".join(left[:3]) + (" …" if len(left) > 3 else "")
    message = f"{listed}: not read, because {why}; the weights are in {taken[0]}" + (" …" if len(taken) > 1 else "")
    hint = "Remove what is not needed: vLLM may load every file of the folder."
    return (Finding(code="weights.stray", level=Level.WARNING, message=message, hint=hint, source=left[0]),)


def _with_others(choice: WeightChoice, others: list[str]) -> WeightChoice:
    if not others:
        return choice
    message = f"Weights are there in several formats; {choice.format} is read, {others[0]} and the like are not."
    finding = Finding(code="weights.formats", level=Level.INFO, message=message, source=others[0])
    return replace(choice, findings=(*choice.findings, finding))


def _with_odd(choice: WeightChoice, repository: Repository) -> WeightChoice:
    """Entries that are named like weights and cannot be read, such as the broken links of a half-emptied cache."""
    odd = {name: what for name, what in repository.not_files().items() if name.endswith(WEIGHTS)}
    if not odd:
        return choice
    name, what = next(iter(odd.items()))
    more = f", and {len(odd) - 1} more are no files either" if len(odd) > 1 else ""
    finding = Finding(
        code="weights.no-file",
        level=Level.BLOCKER,
        message=f"{name} is {what} and not a file{more}; engines that list the folder would stop there.",
        hint="Download the file again, or remove the entry.",
        source=name,
    )
    return replace(choice, findings=(*choice.findings, finding))


def _nothing(repository: Repository, names: list[str]) -> Finding:
    foreign = next((name for name in names if name.endswith(FOREIGN)), None)
    what = f"only {foreign}, a format that vLLM does not load" if foreign else "no weights"
    return Finding(
        code="weights.none",
        level=Level.BLOCKER,
        message=f"{repository.location} holds {what}.",
        hint="Download the model's safetensors files.",
        source=foreign or repository.location,
    )
