"""The model and what it needs, for people: a section of `report.html`, and the page `analysis.html`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from autoadapter.artifacts import Finding, LayoutSizing, ModelProfile, Sizing
from autoadapter.artifacts.model_profile import Verdict
from autoadapter.rendering.cost_table import CostTable, cost_tables
from autoadapter.rendering.env import render
from autoadapter.rendering.fit import Fit, Tone, answer_words, fit_of, holds_a_request, verdict_words, why_unsized
from autoadapter.rendering.layer_map import LayerMap
from autoadapter.rendering.layouts import (
    COLUMNS,
    REPLICAS,
    layout_name,
    refusals,
    row,
    serving_layouts,
    smallest_words,
    terms_words,
)
from autoadapter.rendering.memory_bar import MemoryBar
from autoadapter.rendering.model_facts import all_findings, fact_rows, proof
from autoadapter.rendering.roofline import Roofline
from autoadapter.rendering.words import kv_dtype_of
from autoadapter.rendering.writer import write_atomically

PAGE = "analysis.html"
MOST_BARS, MOST_ROWS = 4, 8
BANNERS: dict[Tone, str] = {"good": "passed", "bad": "failed", "unsure": "not_run"}
"""The report's classes."""


@dataclass(frozen=True)
class CostPart:
    """Where the time goes on one layout."""

    hardware: str
    tables: tuple[CostTable, ...]
    roofline: Roofline | None
    source: str


@dataclass(frozen=True)
class SizingPart:
    """What the model needs: on one machine with its layouts, or on common ones with the best layout of each."""

    title: str
    note: str
    columns: tuple[str, ...]
    layouts: tuple[tuple[str, ...], ...]
    more: tuple[tuple[str, ...], ...]
    """Rows that are folded."""
    arithmetic: tuple[tuple[str, str], ...]
    bars: tuple[MemoryBar, ...]
    refusals: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str, str], ...]
    """`good` or `mind`, text and source."""
    cost: CostPart | None

    @classmethod
    def of(cls, sizing: Sizing) -> Self:
        """Layouts that serve as rows and bars, the others with their reason."""
        serving = serving_layouts(sizing.layouts) or holds_a_request(sizing)
        rows = tuple(row(layout, layout_name(layout)) for layout in serving)
        return cls(
            title=sizing.hardware.text,
            note=_note([sizing], serving),
            columns=COLUMNS,
            layouts=rows[:MOST_ROWS],
            more=rows[MOST_ROWS:],
            arithmetic=tuple((layout_name(layout), layout.arithmetic) for layout in serving),
            bars=tuple(MemoryBar.of(sizing, layout, layout_name(layout)) for layout in serving[:MOST_BARS]),
            refusals=tuple(refusals(sizing.layouts)),
            facts=_facts(sizing),
            cost=_cost(sizing),
        )

    @classmethod
    def of_common(cls, sizings: Sequence[Sizing]) -> Self:
        """A row a machine; costs and facts of the first GPU that serves."""
        best = [(sizing, layouts[0]) for sizing in sizings if (layouts := serving_layouts(sizing.layouts))]
        named = [(sizing, layout, f"{sizing.hardware.text} {layout_name(layout)}") for sizing, layout in best]
        shown = next((sizing for sizing, _ in best if sizing.cost), None)
        return cls(
            title="common hardware",
            note=_note(sizings, [layout for _, layout in best]),
            columns=("hardware", *COLUMNS[1:]),
            layouts=tuple(row(layout, name) for _, layout, name in named),
            more=(),
            arithmetic=tuple((name, layout.arithmetic) for _, layout, name in named),
            bars=tuple(MemoryBar.of(sizing, layout, name) for sizing, layout, name in named),
            refusals=tuple(
                (f"{sizing.hardware.text} {names}", reason)
                for sizing in sizings
                if not serving_layouts(sizing.layouts)
                for names, reason in refusals(sizing.layouts)
            ),
            facts=_facts(shown) if shown else (),
            cost=_cost(shown) if shown else None,
        )


def _note(sizings: Sequence[Sizing], shown: Sequence[LayoutSizing]) -> str:
    copied = any(layout.parallelism.data_parallel_size > 1 for layout in shown)
    more = f" {REPLICAS}." if copied else ""
    need = smallest_words(sizings[0])
    version = f"vLLM {sizings[0].vllm_version}"
    return f"GiB a device; {terms_words(sizings)}, {version}.{more} {need[:1].upper()}{need[1:]}."


def _facts(sizing: Sizing) -> tuple[tuple[str, str, str], ...]:
    return tuple(("good" if fact.good else "mind", fact.text, fact.source) for fact in sizing.device_facts)


def _cost(sizing: Sizing) -> CostPart | None:
    cost = sizing.cost
    if cost is None or not cost.operators:
        return None
    return CostPart(sizing.hardware.text, cost_tables(cost), Roofline.of(cost), cost.source)


@dataclass(frozen=True)
class ModelSection:
    """The model's facts, its layers, and what it needs."""

    facts: tuple[tuple[str, str], ...]
    layers: LayerMap
    sizing: SizingPart | None
    unsized: str
    """Why there is no such part; else empty."""

    @classmethod
    def of(cls, profile: ModelProfile, sizings: Sequence[Sizing] = ()) -> Self:
        """The section of a profile: on one machine, or on several side by side."""
        unsized = why_unsized(profile) if sizings else None
        return cls(
            facts=tuple(fact_rows(profile, sizings[0] if sizings and not unsized else None)),
            layers=LayerMap.of(profile.structure, kv_dtype_of(profile)),
            sizing=None if unsized else _sizing_part(sizings),
            unsized=unsized or "",
        )


def _sizing_part(sizings: Sequence[Sizing]) -> SizingPart | None:
    if len(sizings) > 1:
        return SizingPart.of_common(sizings)
    return SizingPart.of(sizings[0]) if sizings else None


@dataclass(frozen=True)
class AnalysisView:
    """`analysis.html`. The template escapes every value: names from a model are hostile."""

    template: ClassVar[str] = "report/analysis.html.j2"

    model: str
    architecture: str
    banner: str
    word: str
    reason: str
    where: str
    findings: tuple[Finding, ...]
    section: ModelSection

    @classmethod
    def of(cls, profile: ModelProfile, sizings: Sequence[Sizing] = ()) -> Self:
        """The page of a model."""
        found = all_findings(profile, sizings)
        verdict = profile.verdict
        words, tone = _words(verdict, found, _fit(profile, sizings))
        return cls(
            model=profile.ref.name,
            architecture=profile.architecture,
            banner=BANNERS[tone],
            word=words[:1].upper() + words[1:],
            reason=proof(verdict),
            where=f"vLLM {verdict.vllm_version}, route {verdict.route}; AutoAdapter {profile.tool_version}",
            findings=found,
            section=ModelSection.of(profile, sizings),
        )


def _words(verdict: Verdict, found: Sequence[Finding], fit: Fit | None) -> tuple[str, Tone]:
    """The banner names version and route below, so where the model serves it need not."""
    if fit is None or fit.outcome == "serves" or verdict.is_refused:
        return verdict_words(verdict, found)
    return answer_words(verdict, found, fit)


def _fit(profile: ModelProfile, sizings: Sequence[Sizing]) -> Fit | None:
    """Of the one machine that was asked for; a context shorter than the model's was asked for too."""
    if len(sizings) != 1 or why_unsized(profile):
        return None
    return fit_of(sizings[0], asked=sizings[0].max_model_len < profile.max_model_len)


def write_analysis_page(folder: Path, profile: ModelProfile, sizings: Sequence[Sizing] = ()) -> Path:
    """Write `analysis.html` into a folder, whole or not at all; an unchanged page is left as it is.

    Raises:
        StorageError: it could not be written.
    """
    path, text = folder / PAGE, render(AnalysisView.of(profile, sizings))
    if not path.is_file() or path.read_text(errors="replace", encoding="utf-8") != text:
        write_atomically(path, text)
    return path
