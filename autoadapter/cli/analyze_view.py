"""What `analyze` shows: the verdict first, then what stands in the way, what it needs, what it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autoadapter.artifacts import Finding, Level, ModelProfile, Sizing
from autoadapter.cli.analyze_sizing import show_sizing
from autoadapter.cli.output import Out
from autoadapter.rendering.model_facts import all_findings, fact_rows, proof, verdict_words

MOST_WARNINGS, MOST_REASON = 4, 260
TONES = {"good": "bold green", "bad": "bold red", "unsure": "bold yellow"}


@dataclass(frozen=True)
class Analysis:
    """What is known of one model."""

    profile: ModelProfile
    sizings: tuple[Sizing, ...] = ()
    """On the hardware asked for; without a GPU asked, on common ones too."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The profile's, then those of the sizings, each once, worst first."""
        return all_findings(self.profile, self.sizings)

    def document(self) -> dict[str, Any]:
        """The JSON: the profile's fields; beside them `sizing` (null where nothing was sized) and `common_hardware`."""
        sizings = [sizing.model_dump(mode="json") for sizing in self.sizings]
        first = sizings[0] if sizings else None
        return {**self.profile.model_dump(mode="json"), "sizing": first, "common_hardware": sizings[1:]}


@dataclass(frozen=True)
class Detail:
    """How much to show."""

    verbose: bool = False
    all_layouts: bool = False


def show_analysis(out: Out, analysis: Analysis, detail: Detail) -> None:
    """One screen."""
    profile = analysis.profile
    _verdict(out, profile, analysis.findings, detail)
    _noticed(out, analysis.findings, detail)
    if analysis.sizings:
        out.line("")
        show_sizing(out, analysis.sizings, all_layouts=detail.all_layouts)
    out.line("")
    out.facts(fact_rows(profile, verbose=detail.verbose))


def _verdict(out: Out, profile: ModelProfile, findings: Sequence[Finding], detail: Detail) -> None:
    verdict = profile.verdict
    words, tone = verdict_words(verdict, findings)
    route = "" if verdict.outcome == "will_not_start" else f", route {verdict.route}"
    name = f"{profile.ref.name}  ({profile.architecture})  "
    out.spans([(name, "bold"), (f"{words} on vLLM {verdict.vllm_version}{route}", TONES[tone])])
    out.facts([("because", proof(verdict, None if detail.verbose else MOST_REASON))])


def _noticed(out: Out, findings: Sequence[Finding], detail: Detail) -> None:
    infos = [finding for finding in findings if finding.level is Level.INFO]
    grave = [finding for finding in findings if finding.level is not Level.INFO]
    shown = grave if detail.verbose else _first(grave)
    out.findings([*shown, *(infos if detail.verbose else ())])
    rest = [
        *([_count(len(grave) - len(shown), "more warning")] if len(grave) > len(shown) else []),
        *([_count(len(infos), "note")] if infos and not detail.verbose else []),
    ]
    told = [f"{' and '.join(rest)}: --verbose"] if rest else []
    told += ["what a code means: autoadapter analyze --explain CODE"] if shown else []
    if told:
        out.line("         " + "; ".join(told), "dim")


def _first(grave: Sequence[Finding]) -> list[Finding]:
    """Every blocker, and of the warnings one a code while there is room."""
    blockers = [finding for finding in grave if finding.level is Level.BLOCKER]
    by_code: dict[str, Finding] = {}
    for finding in grave[len(blockers) :]:
        by_code.setdefault(finding.code, finding)
    return [*blockers, *list(by_code.values())[: max(MOST_WARNINGS - len(blockers), 0)]]


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
