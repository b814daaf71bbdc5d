"""The files that an `auto_map` needs, and what they import."""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from autoadapter.analyze.dependencies.table import known_type, vllm_reads
from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.remote_code.imports import MOST_BYTES, Import, imports_of
from autoadapter.artifacts import Finding, Level

MOST_FILES = 24
"""On the Hub each is a request; the largest models have a dozen."""
ELSEWHERE = "--"
"""Between a repository and a module of it: `org/model--modeling_x.Class`."""
MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
OURS = {"torch", "transformers"}
"""Packages that every engine has."""


@dataclass(frozen=True)
class Scan:
    """What was read of a checkpoint's code."""

    files: tuple[str, ...]
    imports: tuple[Import, ...]
    findings: tuple[Finding, ...]

    def packages(self, *, optional: bool) -> tuple[str, ...]:
        """Names of packages beside the standard library, torch and transformers, sorted.

        Args:
            optional: those that no file needs, instead of those that some file does.
        """
        others = [found for found in self.imports if not found.level and _is_foreign(found.package)]
        needed = {found.package for found in others if not found.optional}
        chosen = {found.package for found in others} - needed if optional else needed
        return tuple(sorted(chosen))


def scan(evidence: Evidence, auto_map: Mapping[str, JsonValue]) -> Scan:
    """Read the files that an `auto_map` names and those that they import relatively, a few dozen at most."""
    waiting, findings = _named(evidence, auto_map)
    there = evidence.repository.files()
    read: list[str] = []
    imports: list[Import] = []
    while waiting and len(read) < MOST_FILES:
        file = waiting.pop(0)
        read.append(file)
        found = _imports(evidence, file)
        if isinstance(found, str):
            findings.append(_unreadable(file, found))
            continue
        imports += found
        near = (name for one in found if one.level == 1 for name in _near(one))
        waiting += [name for name in dict.fromkeys(near) if name in there and name not in (*read, *waiting)]
    return Scan(tuple(read), tuple(imports), tuple(findings))


def _imports(evidence: Evidence, file: str) -> tuple[Import, ...] | str:
    size = evidence.repository.files()[file].bytes
    if size > MOST_BYTES:
        return f"has {size} bytes and was not scanned: more than any modeling file has"
    return imports_of(evidence.repository.read(file), file)


def _named(evidence: Evidence, auto_map: Mapping[str, JsonValue]) -> tuple[list[str], list[Finding]]:
    """Files that the map names, and what is wrong with the other entries."""
    files: dict[str, None] = {}
    absent: dict[str, None] = {}
    findings = []
    for key, target in _targets(auto_map):
        if ELSEWHERE in target:
            findings.append(_elsewhere(key, target))
            continue
        module = target.rpartition(".")[0]
        file = module.replace(".", "/") + ".py"
        if not MODULE.fullmatch(module):
            absent[repr(target)] = None
        else:
            (files if file in evidence.repository.files() else absent)[file] = None
    return list(files), [*findings, *([_absent(evidence, list(absent))] if absent else [])]


def _targets(auto_map: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    for key, value in auto_map.items():
        for target in value if isinstance(value, list) else [value]:
            if isinstance(target, str) and target:
                yield key, target


def _near(found: Import) -> list[str]:
    """Files that a relative import may mean."""
    inside = [found.module, f"{found.module}.{found.name}"] if found.module else [str(found.name)]
    return [f"{module.replace('.', '/')}.py" for module in inside]


def _is_foreign(package: str) -> bool:
    return package not in sys.stdlib_module_names and package not in OURS


def _unreadable(file: str, problem: str) -> Finding:
    message = f"{file}, which auto_map needs, {problem}."
    hint = "Take the file from the original repository; nothing of it was run."
    return Finding(code="remote-code.unreadable", level=Level.WARNING, message=message, hint=hint, source=file)


def _absent(evidence: Evidence, files: list[str]) -> Finding:
    """Files that are not there matter where nobody else reads the config."""
    model_type = evidence.root.text("model_type") or ""
    needed = known_type(model_type) is None and not vllm_reads(model_type)
    level = Level.WARNING if needed else Level.INFO
    message = f"auto_map needs {', '.join(files)}, not to be found beside config.json."
    hint = "Download the model with its .py files; without them only a native class can serve it."
    source = evidence.root.source("auto_map")
    return Finding(code="remote-code.absent", level=level, message=message, hint=hint, source=source)


def _elsewhere(key: str, target: str) -> Finding:
    message = f"auto_map takes {key} from another repository: {target}. What is there was not read."
    hint = "That repository can change under you: pin it with --code-revision, or copy its files here."
    return Finding(
        code="remote-code.elsewhere", level=Level.WARNING, message=message, hint=hint, source=f"auto_map.{key}"
    )
