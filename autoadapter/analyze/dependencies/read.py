"""What the profile says of transformers, vLLM and other packages, and what stands in the way."""

import re
from pathlib import Path
from typing import Literal

from autoadapter.analyze.dependencies.checks import Needs, dependency_findings
from autoadapter.analyze.dependencies.table import KnownType, known_type, oldest_transformers, vllm_reads
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.analyze.versions import older
from autoadapter.artifacts.model_profile import Dependencies, PackageNeed, RemoteCode
from autoadapter.engine.registry import first_serving, known_versions, registry_for
from autoadapter.engine.search_path import find_package, search_path

TOKENIZER_CONFIG = "tokenizer_config.json"
V5_TOKENIZERS = ("TokenizersBackend",)
"""Tokenizer classes that exist since transformers 5.0.0 only."""
TOKENIZERS_5 = "5.0.0"
AT_LEAST = re.compile(r">=\s*([\d.]+)")
ConfigBy = Literal["transformers", "vllm", "remote-code", "nobody"]


def read_dependencies(evidence: Evidence, remote: RemoteCode | None, vllm_version: str) -> Reading:
    """`dependencies` of the profile.

    Args:
        evidence: the model's files, and the engine where one is installed.
        remote: the checkpoint's own code, None when it has none.
        vllm_version: the release that the profile speaks of.
    """
    model_type = evidence.root.text("model_type") or ""
    known, installed = known_type(model_type), _installed(evidence)
    value = Dependencies(
        transformers=evidence.root.text("transformers_version"),
        min_transformers=_first_transformers(evidence, known),
        max_transformers=known.last if known else None,
        config_by=_config_by(evidence, model_type),
        installed_transformers=installed,
        min_vllm=first_vllm(evidence.architecture),
        packages=_packages(evidence, remote),
        extras=("convert",) if evidence.checkpoint.format in ("gguf", "pytorch") else (),
    )
    sources = {
        "transformers": evidence.root.source("transformers_version"),
        "min_transformers": "dependencies/transformers_versions.json",
        "min_vllm": "engine/registry",
    }
    doubtful = known is None or known.last is not None or older(installed or known.first, known.first)
    declared = _declares(evidence, model_type) if doubtful and value.config_by != "vllm" else None
    findings = dependency_findings(evidence, Needs(model_type, value, known, declared, _at_least(vllm_version)))
    return Reading("dependencies", value, sources, tuple(findings))


def first_vllm(architecture: str) -> str | None:
    """The first release known to serve an architecture.

    None where none does, and where the oldest known one does: it may not have been the first.
    """
    oldest = known_versions()[0]
    if architecture in registry_for(oldest).registry.served:
        return None
    row = first_serving(architecture, oldest)
    return row.since if row else None


def _first_transformers(evidence: Evidence, known: KnownType | None) -> str | None:
    """The first release that knows both the model type and the tokenizer's class, where not every one does."""
    first = known.first if known and known.first != oldest_transformers() else None
    if evidence.json(TOKENIZER_CONFIG).get("tokenizer_class") not in V5_TOKENIZERS:
        return first
    return first if first and older(TOKENIZERS_5, first) else TOKENIZERS_5


def _at_least(vllm_version: str) -> str | None:
    """The oldest transformers that a release of vLLM may run with."""
    asked = AT_LEAST.search(registry_for(vllm_version).registry.transformers)
    return asked[1] if asked else None


def _installed(evidence: Evidence) -> str | None:
    return evidence.engine.packages.get("transformers") if evidence.engine else None


def _config_by(evidence: Evidence, model_type: str) -> ConfigBy | None:
    """Who reads config.json; None for a file in another format, whose config is translated here."""
    if evidence.checkpoint.format == "gguf" or not model_type:
        return None
    if vllm_reads(model_type):
        return "vllm"
    if known_type(model_type):
        return "transformers"
    auto_map = evidence.root.get("auto_map")
    return "remote-code" if isinstance(auto_map, dict) and "AutoConfig" in auto_map else "nobody"


def _declares(evidence: Evidence, model_type: str) -> bool | None:
    """Whether the installed transformers itself names the model type; None when there is none to look into."""
    folders = search_path(evidence.engine.python) if evidence.engine and model_type else None
    found = find_package("transformers", folders) if folders else None
    if found is None or not found.is_dir():
        return None
    tables = (found / "models" / "auto" / name for name in ("auto_mappings.py", "configuration_auto.py"))
    return any(f'"{model_type}"'.encode() in path.read_bytes() for path in tables if path.is_file())


def _packages(evidence: Evidence, remote: RemoteCode | None) -> tuple[PackageNeed, ...]:
    if remote is None:
        return ()
    folders = search_path(evidence.engine.python) if evidence.engine else None
    return tuple(
        PackageNeed(name=name, optional=optional, installed=_has(name, folders))
        for names, optional in ((remote.imports, False), (remote.optional_imports, True))
        for name in names
    )


def _has(name: str, folders: tuple[Path, ...] | None) -> bool | None:
    return None if folders is None else find_package(name, folders) is not None
