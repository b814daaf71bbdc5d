"""What `analyze` shows: the verdict first, then what stands in the way, what it needs, what it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autoadapter.artifacts import Finding, Level, ModelProfile, Sizing
from autoadapter.cli.analyze_sizing import show_sizing
from autoadapter.cli.output import Out
from autoadapter.rendering.fit import Fit, answer_words, fit_of, why_unsized
from autoadapter.rendering.model_facts import TOO_SMALL, all_findings, fact_rows, proof

MOST_WARNINGS, MOST_REASON = 4, 260
TONES = {"good": "bold green", "bad": "bold red", "unsure": "bold yellow"}


@dataclass(frozen=True)
class Analysis:
    """What is known of one model."""

    profile: ModelProfile
    sizings: tuple[Sizing, ...] = ()
    """On the hardware asked for; where none was, on this CPU and common GPUs."""
    asked_len: bool = False
    """The user named the context."""

    @property
    def unsized(self) -> str | None:
        """Why there is nothing to say of memory."""
        return why_unsized(self.profile) if self.sizings else None

    @property
    def counted(self) -> Sizing | None:
        """A sizing that counts parameters."""
        return self.sizings[0] if self.sizings and not self.unsized else None

    @property
    def fit(self) -> Fit | None:
        """What the hardware that was asked for makes of the model; None where none was asked for."""
        if len(self.sizings) != 1 or self.unsized:
            return None
        return fit_of(self.sizings[0], asked=self.asked_len)

    @property
    def misfit(self) -> Fit | None:
        """The same where the model would start but for the hardware, and nothing serves it there."""
        stops = self.profile.verdict.is_refused
        return self.fit if self.fit is not None and self.fit.is_error and not stops else None

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
    profile, sizings = analysis.profile, analysis.sizings
    _verdict(out, analysis, detail)
    _noticed(out, [row for row in analysis.findings if row.code != TOO_SMALL], detail)
    if analysis.unsized:
        out.line(f"needs    {analysis.unsized}")
    elif sizings:
        out.line("")
        show_sizing(out, sizings, all_layouts=detail.all_layouts)
    out.line("")
    out.facts(fact_rows(profile, analysis.counted, verbose=detail.verbose))


def _verdict(out: Out, analysis: Analysis, detail: Detail) -> None:
    profile = analysis.profile
    words, tone = answer_words(profile.verdict, analysis.findings, analysis.fit)
    kind = f"({profile.architecture}) " if profile.architecture else ""
    out.spans([(f"{profile.ref.name} {kind}", "bold"), (words, TONES[tone])])
    out.facts([("because", proof(profile.verdict, None if detail.verbose else MOST_REASON))])


def _noticed(out: Out, findings: Sequence[Finding], detail: Detail) -> None:
    infos = [finding for finding in findings if finding.level is Level.INFO]
    grave = [finding for finding in findings if finding.level is not Level.INFO]
    shown = grave if detail.verbose else _first(grave)
    out.findings([*shown, *(infos if detail.verbose else ())])
    rest = [
        *([_count(len(grave) - len(shown), "more warning")] if len(grave) > len(shown) else []),
        *([_count(len(infos), "note")] if infos and not detail.verbose else []),
    ]
    told = [f"{', '.join(rest)}: --verbose"] if rest else []
    told += ["what a code means: --explain CODE"] if shown else []
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
