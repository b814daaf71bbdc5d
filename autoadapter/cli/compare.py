"""Several models side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autoadapter.artifacts import Level
from autoadapter.cli.analyze_view import Analysis
from autoadapter.cli.output import Out, error_facts
from autoadapter.errors import AutoadapterError, UnsupportedModelError
from autoadapter.rendering.layouts import layout_name
from autoadapter.rendering.model_facts import attention, kv_cache, quantization, verdict_words
from autoadapter.units import human_bytes, human_count

SIDE_BY_SIDE = 3
"""Models that fit beside one another; more of them become rows."""
INTERNAL = 1


@dataclass(frozen=True)
class Compared:
    """One model of a comparison: what was found, or why nothing could be."""

    name: str
    """As the user typed it."""
    analysis: Analysis | None = None
    error: AutoadapterError | None = None

    @property
    def exit_code(self) -> int:
        """What a call for this model alone would have ended with."""
        if self.error is not None:
            return self.error.exit_code
        stops = self.analysis is not None and self.analysis.profile.verdict.outcome == "will_not_start"
        return UnsupportedModelError.exit_code if stops else 0

    def document(self) -> dict[str, Any]:
        """The JSON: as a call for this model alone would print it, or its error with the model's name."""
        if self.analysis is not None:
            return self.analysis.document()
        return {"model": self.name, "error": error_facts(self.error) if self.error else None}


def worst(codes: Sequence[int]) -> int:
    """The exit code of a comparison: an internal error before all, else the highest."""
    return INTERNAL if INTERNAL in codes else max(codes, default=0)


def show_comparison(out: Out, compared: Sequence[Compared]) -> None:
    """Facts as rows and models as columns, or the other way where there are many models."""
    if len(compared) <= SIDE_BY_SIDE:
        rows = [(name, *(_cell(one, tell) for one in compared)) for name, tell in FACTS.items()]
        out.table(("", *(_title(one) for one in compared)), [row for row in rows if any(row[1:])])
    else:
        told = {name: tell for name, tell in BRIEF.items() if any(_cell(one, tell) for one in compared)}
        out.table(("model", *told), [(_title(one), *(_cell(one, tell) for tell in told.values())) for one in compared])
    for one in compared:
        if one.error is not None:
            out.spans([(f"{one.name}: ", ""), (str(one.error), "bold red"), (f"  {one.error.hint or ''}", "dim")])


def _title(one: Compared) -> str:
    return one.analysis.profile.ref.name if one.analysis else one.name


def _cell(one: Compared, tell: Callable[[Analysis], str]) -> str:
    if one.analysis is not None:
        return tell(one.analysis)
    return f"error (exit code {one.exit_code})" if tell is _verdict else ""


def _verdict(analysis: Analysis) -> str:
    return verdict_words(analysis.profile.verdict, analysis.findings)[0]


def _route(analysis: Analysis) -> str:
    verdict = analysis.profile.verdict
    return f"{verdict.route} on vLLM {verdict.vllm_version}"


def _parameters(analysis: Analysis) -> str:
    count = analysis.profile.tensors.parameters
    return human_count(count) if count else "not here"


def _weights(analysis: Analysis) -> str:
    return f"{_served(analysis)} as {analysis.profile.memory.served_dtype}"


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
    return next((sizing.smallest for sizing in analysis.sizings if sizing.smallest), "")


def _room(analysis: Analysis) -> str:
    """What the asked hardware holds."""
    if not analysis.sizings:
        return ""
    sizing = analysis.sizings[0]
    best = next((row for row in sizing.layouts if row.legal and row.fits and row.kv), None)
    if best is None or best.kv is None:
        return f"does not fit {sizing.hardware.text}"
    return f"{best.kv.tokens:,} ({best.kv.max_concurrency:.1f} at once) on {sizing.hardware.text} {layout_name(best)}"


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
    "verdict": _verdict,
    "size": _parameters,
    "weights": _served,
    "KV/token": lambda analysis: human_bytes(analysis.profile.memory.kv_bytes_per_token),
    "context": _context,
    "quant": lambda analysis: analysis.profile.quantization.method if analysis.profile.quantization else "none",
    "needs": _needs,
}
"""Short enough for one line a model."""
