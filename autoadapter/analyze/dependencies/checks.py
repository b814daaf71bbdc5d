"""Where a model and the releases that would run it do not fit together."""

from collections.abc import Iterator
from dataclasses import dataclass

from autoadapter.analyze.dependencies.table import KnownType, newest_transformers
from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.versions import older, release
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import Dependencies
from autoadapter.engine.registry import known_issues

REWRITTEN = "5"
"""The release of transformers that moved and removed much of what remote code is built on."""


@dataclass(frozen=True)
class Needs:
    """What is known before the checks."""

    model_type: str
    dependencies: Dependencies
    known: KnownType | None
    """Releases of transformers that know the type."""
    declared: bool | None
    """The installed transformers names the model type; None when it was not looked up."""
    asked: str | None
    """The oldest transformers that the target vLLM may run with."""

    @property
    def transformers(self) -> str:
        """What the model would run with: the installed release, or at least that one."""
        return self.dependencies.installed_transformers or self.asked or "0"


def dependency_findings(evidence: Evidence, needs: Needs) -> Iterator[Finding]:
    """All that is worth telling about releases and packages."""
    source = evidence.root.source("model_type")
    for finding in (_unknown(needs, source), _too_old(needs, source), _dropped(needs, source)):
        if finding is not None:
            yield finding
    yield from _written(evidence, needs)
    yield from _packages(evidence, needs)


def _unknown(needs: Needs, source: str) -> Finding | None:
    if needs.dependencies.config_by != "nobody" or needs.declared:
        return None
    level = Level.WARNING if needs.declared is None else Level.BLOCKER
    newest, installed = newest_transformers(), needs.dependencies.installed_transformers
    beside = f", nor does {installed} beside vLLM," if installed else ""
    message = (
        f"No transformers up to {newest} knows model_type {needs.model_type!r}{beside} and the checkpoint brings no "
        "code for it (auto_map)."
    )
    hint = "Install a newer transformers if the model is newer than that; otherwise mend model_type in config.json."
    return Finding(code="dependencies.model-type-unknown", level=level, message=message, hint=hint, source=source)


def _too_old(needs: Needs, source: str) -> Finding | None:
    facts = needs.dependencies
    first, installed = needs.known.first if needs.known else None, facts.installed_transformers
    if facts.config_by != "transformers" or needs.declared or first is None or installed is None:
        return None
    if not older(installed, first):
        return None
    message = f"transformers knows {needs.model_type!r} since {first}, and {installed} is installed beside vLLM."
    hint = f"pip install 'transformers>={first}' in the engine's environment, if its vLLM allows that."
    return Finding(code="dependencies.transformers-old", level=Level.BLOCKER, message=message, hint=hint, source=source)


def _dropped(needs: Needs, source: str) -> Finding | None:
    facts = needs.dependencies
    last, installed = facts.max_transformers, facts.installed_transformers
    if facts.config_by != "transformers" or needs.declared or last is None:
        return None
    if installed is not None and not older(last, installed):
        return None
    level = Level.WARNING if installed is None else Level.BLOCKER
    message = f"transformers dropped {needs.model_type!r} after {last}" + (
        f", and {installed} is installed beside vLLM." if installed else "."
    )
    hint = f"An engine with transformers {last} or older still reads its config."
    return Finding(code="dependencies.transformers-dropped", level=level, message=message, hint=hint, source=source)


def _written(evidence: Evidence, needs: Needs) -> Iterator[Finding]:
    """The release that wrote config.json against the one that would read it."""
    facts = needs.dependencies
    wrote, installed = facts.transformers, facts.installed_transformers
    source = evidence.root.source("transformers_version")
    if wrote is None or release(wrote) is None:
        return
    if installed is not None and older(_minor(installed), _minor(wrote)):
        level = Level.WARNING if older(_major(installed), _major(wrote)) else Level.INFO
        message = (
            f"config.json was written by transformers {wrote}, and the older {installed} is installed beside vLLM."
        )
        hint = "Keys that the older one does not know are ignored or read as defaults; prefer the newer one."
        yield Finding(code="dependencies.written-newer", level=level, message=message, hint=hint, source=source)
    outdated = older(wrote, REWRITTEN) and not older(needs.transformers, REWRITTEN)
    if facts.config_by == "remote-code" and outdated and not _is_known_issue(needs.model_type):
        beside = f"{installed} beside vLLM" if installed else f"{needs.asked} or newer, which vLLM asks for,"
        message = (
            f"The checkpoint's own code reads its config, and it was written for transformers {wrote}: under {beside} "
            "such code often fails (removed names, RoPE settings that are standardised before they are set)."
        )
        hint = "Look for a newer revision of the model, or use an engine with transformers below 5."
        yield Finding(
            code="remote-code.old-transformers", level=Level.WARNING, message=message, hint=hint, source=source
        )


def _is_known_issue(model_type: str) -> bool:
    """Whether a row of the registry tells of this model's code already, and more exactly."""
    return any(row.when.remote_code and model_type in row.when.model_types for row in known_issues())


def _packages(evidence: Evidence, needs: Needs) -> Iterator[Finding]:
    absent = [need.name for need in needs.dependencies.packages if need.installed is False and not need.optional]
    if not absent:
        return
    names = ", ".join(absent)
    message = (
        f"The checkpoint's code imports {names}, which the engine's environment lacks: transformers refuses to load it."
    )
    hint = f"Install what provides {names} beside vLLM, then repeat with --force; a native class does not need it."
    source = evidence.root.source("auto_map")
    yield Finding(code="dependencies.package-missing", level=Level.WARNING, message=message, hint=hint, source=source)


def _minor(version: str) -> str:
    return ".".join(map(str, (release(version) or ())[:2]))


def _major(version: str) -> str:
    return ".".join(map(str, (release(version) or ())[:1]))
