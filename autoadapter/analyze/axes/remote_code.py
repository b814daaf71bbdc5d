"""Code that the checkpoint brings along. Its syntax tree is read; nothing is imported."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.analyze.remote_code.imports import Import
from autoadapter.analyze.remote_code.installed import InstalledTransformers
from autoadapter.analyze.remote_code.scan import Scan, scan
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import RemoteCode
from autoadapter.engine.search_path import find_package, search_path

TRANSFORMERS = "transformers"
SHOWN = 4


def read_remote_code(evidence: Evidence) -> Reading:
    """`auto_map` of config and tokenizer, and what the Python files behind it import; None without an `auto_map`."""
    auto_map = _auto_map(evidence)
    if not auto_map:
        return Reading("remote_code", None, {"": evidence.root.source("auto_map")})
    found = scan(evidence, auto_map)
    missing, not_run = _missing(evidence, found)
    value = RemoteCode(
        auto_map={name: _first(target) for name, target in auto_map.items()},
        files=tuple(name for name in evidence.repository.files() if name.endswith(".py")),
        scanned=found.files,
        imports=found.packages(optional=False),
        optional_imports=found.packages(optional=True),
        missing=tuple(f"{one.dotted} ({one.file}:{one.line})" for one in missing),
        not_run=not_run,
    )
    findings = (*found.findings, *_told(evidence, missing))
    return Reading("remote_code", value, {"auto_map": "auto_map", "imports": ", ".join(found.files)}, findings)


def _auto_map(evidence: Evidence) -> dict[str, JsonValue]:
    """Entries of both files; config.json's win."""
    documents = (evidence.json("tokenizer_config.json"), evidence.root.data)
    maps = [entries for document in documents if isinstance(entries := document.get("auto_map"), Mapping)]
    return {name: target for entries in maps for name, target in entries.items()}


def _first(target: JsonValue) -> str:
    if isinstance(target, list):
        return next((item for item in target if isinstance(item, str)), "")
    return str(target)


def _missing(evidence: Evidence, found: Scan) -> tuple[list[Import], str | None]:
    """Imports from transformers that the engine's installation lacks, or why that was not looked up."""
    wanted = [one for one in found.imports if one.package == TRANSFORMERS and not one.level and not one.optional]
    folder = _transformers(evidence) if wanted else None
    if isinstance(folder, str):
        return [], folder
    if folder is None:
        return [], None
    lacking = InstalledTransformers(folder).lacking({(one.module, one.name) for one in wanted})
    return [one for one in wanted if (one.module, one.name) in lacking], None


def _transformers(evidence: Evidence) -> Path | str:
    if evidence.engine is None:
        return "no vLLM of the target's version is installed here, so there is no transformers to look into"
    folders = search_path(evidence.engine.python)
    if folders is None:
        return f"{evidence.engine.python} does not run"
    found = find_package(TRANSFORMERS, folders)
    return found if found is not None and found.is_dir() else "transformers is not installed beside the target vLLM"


def _told(evidence: Evidence, missing: list[Import]) -> list[Finding]:
    if not missing or evidence.engine is None:
        return []
    version = evidence.engine.packages.get(TRANSFORMERS, "")
    shown = "; ".join(
        f"{one.file}:{one.line} imports {one.name or one.module} from {one.module}" for one in missing[:SHOWN]
    )
    more = f" (and {len(missing) - SHOWN} more)" if len(missing) > SHOWN else ""
    message = f"The checkpoint's code asks transformers {version} for names that it does not have: {shown}{more}."
    hint = "That code fails when it is imported: use a native class, or the transformers that it was written for."
    source = f"{missing[0].file}:{missing[0].line}"
    return [Finding(code="remote-code.missing-name", level=Level.WARNING, message=message, hint=hint, source=source)]
