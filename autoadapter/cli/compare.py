"""Several models side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autoadapter.artifacts import Level
from autoadapter.cli.analyze_view import Analysis
from autoadapter.cli.output import GRID_GAP, Out, error_facts
from autoadapter.cli.widths import LEAST_NAME, column_widths, shortened
from autoadapter.errors import AutoadapterError
from autoadapter.rendering.fit import MISFITS, verdict_words
from autoadapter.rendering.layouts import cells_of_cache, layout_name, serving_layouts
from autoadapter.rendering.model_facts import COMPRESSED, attention, kv_cache, parameters, quantization, served_as
from autoadapter.units import human_bytes

SIDE_BY_SIDE = 3
"""Models that fit beside one another; more of them become rows."""
INTERNAL = 1
WHOLE = frozenset({"model", "weights", "KV/token"})
"""Columns whose numbers stay beside their units where models are rows."""


@dataclass(frozen=True)
class Compared:
    """One model of a comparison: what was found, and what stands in the way of it or of a start."""

    name: str
    """As the user typed it."""
    analysis: Analysis | None = None
    error: AutoadapterError | None = None

    @property
    def exit_code(self) -> int:
        """What a call for this model alone would have ended with."""
        return self.error.exit_code if self.error is not None else 0

    def document(self) -> dict[str, Any]:
        """The JSON: as a call for this model alone would print it, or its error with the model's name."""
        if self.analysis is not None:
            return self.analysis.document()
        return {"model": self.name, "error": error_facts(self.error) if self.error else None}


def worst(codes: Sequence[int]) -> int:
    """The exit code of a comparison: an internal error before all, else the highest."""
    return INTERNAL if INTERNAL in codes else max(codes, default=0)


def show_comparison(out: Out, compared: Sequence[Compared]) -> None:
    """Facts as rows and models as columns; many models as rows; one below another where the screen is narrow."""
    if not (_side_by_side(out, compared) if len(compared) <= SIDE_BY_SIDE else _as_rows(out, compared)):
        for one in compared:
            out.heading(_title(one))
            facts = [(name, _cell(one, tell)) for name, tell in FACTS.items()]
            out.facts([("  " + name, value) for name, value in facts if value])
    for one in compared:
        if one.error is not None:
            out.hanging((f"{one.name}: ", ""), [(str(one.error), "bold red"), (f"  {one.error.hint or ''}", "dim")])


def _side_by_side(out: Out, compared: Sequence[Compared]) -> bool:
    """Facts as rows, if no word of them is wider than its column."""
    most = max((out.width - max(len(name) for name in FACTS)) // len(compared) - GRID_GAP, LEAST_NAME)
    told = [(name, *(_cell(one, tell) for one in compared)) for name, tell in FACTS.items()]
    rows = [row for row in told if any(row[1:])]
    rows = [tuple(shortened(cell, most) for cell in row) if row[0] == "architecture" else row for row in rows]
    heads = ("", *(shortened(_title(one), most) for one in compared))
    return _grid(out, heads, rows)


def _as_rows(out: Out, compared: Sequence[Compared]) -> bool:
    """Models as rows, names as short as they have to be."""
    told = {name: tell for name, tell in BRIEF.items() if any(_cell(one, tell) for one in compared)}
    longest = max(len(_title(one)) for one in compared)
    for gap in (GRID_GAP, 1):
        for width in range(longest, min(LEAST_NAME, longest) - 1, -1):
            rows = [(shortened(_title(one), width), *(_cell(one, tell) for tell in told.values())) for one in compared]
            if _grid(out, ("model", *told), rows, gap):
                return True
    return False


def _grid(out: Out, heads: Sequence[str], rows: Sequence[Sequence[str]], gap: int = GRID_GAP) -> bool:
    widths = column_widths([heads, *rows], out.width - gap * (len(heads) - 1), WHOLE)
    if widths is None:
        return False
    out.grid(heads, rows, widths, gap)
    return True


def _title(one: Compared) -> str:
    return one.analysis.profile.ref.name if one.analysis else one.name


def _cell(one: Compared, tell: Callable[[Analysis], str]) -> str:
    if one.analysis is not None:
        return tell(one.analysis)
    return f"error (exit code {one.exit_code})" if tell in (_verdict, _brief_verdict) else ""


def _verdict(analysis: Analysis) -> str:
    words, fit = verdict_words(analysis.profile.verdict, analysis.findings)[0], analysis.fit
    if fit is None or fit.outcome == "serves" or analysis.profile.verdict.is_refused:
        return words
    if fit.outcome == "shorter":
        return f"{words} with {fit.longest:,} tokens at most"
    return f"{MISFITS[fit.outcome]} {fit.hardware}"


def _brief_verdict(analysis: Analysis) -> str:
    """The same in few words."""
    words = _verdict(analysis)
    blockers = sum(row.level is Level.BLOCKER for row in analysis.findings)
    return f"{blockers} blocker{'' if blockers == 1 else 's'}" if "as it is" in words else words.removeprefix("is ")


def _route(analysis: Analysis) -> str:
    verdict = analysis.profile.verdict
    return f"{verdict.route} on vLLM {verdict.vllm_version}"


def _parameters(analysis: Analysis) -> str:
    return parameters(analysis.profile, analysis.counted).replace(" parameters", "") or "not known"


def _size(analysis: Analysis) -> str:
    return _parameters(analysis).partition(",")[0]


def _weights(analysis: Analysis) -> str:
    return f"{_served(analysis)} as {served_as(analysis.profile)}"


def _served(analysis: Analysis) -> str:
    """Bytes as served; by the config alone where there are no weights."""
    profile = analysis.profile
    known = profile.memory.served_weight_bytes
    return human_bytes(known) if known else f"about {human_bytes(profile.structure.served_bytes)}"


def _context(analysis: Analysis) -> str:
    return f"{analysis.profile.max_model_len:,}"


def _experts(analysis: Analysis) -> str:
    moe = analysis.profile.moe
    return f"{moe.num_experts_per_tok} of {moe.num_experts}" if moe else ""


def _found(analysis: Analysis) -> str:
    counts = [(level, sum(row.level is level for row in analysis.findings)) for level in Level]
    return ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts if count)


def _needs(analysis: Analysis) -> str:
    if not analysis.sizings or analysis.unsized:
        return ""
    return analysis.sizings[0].smallest or "none in the catalogue"


def _room(analysis: Analysis) -> str:
    """What the hardware asked for holds, all replicas together; where none was, the first that serves."""
    if not analysis.sizings or analysis.unsized:
        return ""
    rows = [(sizing, row) for sizing in analysis.sizings for row in serving_layouts(sizing.layouts) if row.kv]
    if not rows:
        return "" if len(analysis.sizings) > 1 else f"does not fit {analysis.sizings[0].hardware.text}"
    sizing, best = rows[0]
    tokens, requests = cells_of_cache(best)
    return f"{tokens} ({requests} at once) on {sizing.hardware.text} {layout_name(best)}"


def _bits(analysis: Analysis) -> str:
    """Of a weight as served."""
    traits, dtype = analysis.profile.quantization, analysis.profile.memory.served_dtype
    if traits is None or traits.method == "gguf":
        return "32" if dtype == "float32" else "16"
    return str(traits.bits) if traits.bits else traits.method


def _kv(analysis: Analysis) -> str:
    """As short as a row wants it."""
    text = kv_cache(analysis.profile)
    if COMPRESSED in text:
        return "by layer"
    return text.partition(";")[0].partition(" a token")[0]


FACTS: dict[str, Callable[[Analysis], str]] = {
    "verdict": _verdict,
    "route": _route,
    "findings": _found,
    "architecture": lambda analysis: analysis.profile.architecture,
    "parameters": _parameters,
    "weights": _weights,
    "KV cache": lambda analysis: kv_cache(analysis.profile),
    "context": _context,
    "layers": lambda analysis: str(analysis.profile.attention.num_layers),
    "attention": lambda analysis: attention(analysis.profile),
    "experts": _experts,
    "quantization": lambda analysis: quantization(analysis.profile),
    "smallest hardware": _needs,
    "KV tokens": _room,
    "license": lambda analysis: analysis.profile.license or "not stated",
}
BRIEF: dict[str, Callable[[Analysis], str]] = {
    "verdict": _brief_verdict,
    "size": _size,
    "weights": lambda analysis: _served(analysis).replace("about ", ""),
    "KV/token": _kv,
    "context": _context,
    "bits": _bits,
    "needs": lambda analysis: _needs(analysis).partition(" ")[0],
}
"""Short enough for one line a model."""
