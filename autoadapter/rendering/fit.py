"""Whether the hardware that was asked for serves the model, and the first line that says so."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from autoadapter.artifacts import Finding, LayoutSizing, Level, ModelProfile, Sizing
from autoadapter.artifacts.model_profile import Verdict
from autoadapter.errors import DoesNotFitError, UnsupportedModelError
from autoadapter.rendering.layouts import layout_name, serving_layouts

LEAST_CONTEXT = 2048
"""Tokens; what holds fewer is no use, so it counts as not fitting when nobody asked for so few."""
Tone = Literal["good", "bad", "unsure"]
Outcome = Literal["serves", "shorter", "too_small", "cannot_run"]
OUTCOMES: dict[str, tuple[str, Tone]] = {
    "will_start": ("will start", "good"),
    "starts_but_wrong": ("will start but answer wrongly", "bad"),
    "will_not_start": ("will not start", "bad"),
    "not_generative": ("does not generate text", "bad"),
    "unprovable_here": ("is unprovable here", "unsure"),
}
MISFITS: dict[Outcome, str] = {"too_small": "does not fit", "cannot_run": "does not run on"}


@dataclass(frozen=True)
class Fit:
    """What one machine makes of the model."""

    outcome: Outcome
    """`shorter`: with a shorter context than the model's, which nobody asked for."""
    hardware: str
    longest: int = 0
    """Tokens of the longest request that some layout holds, when it is shorter than the context sized for."""
    reason: str = ""
    layout: LayoutSizing | None = None
    """The one that comes nearest."""
    smallest: str | None = None
    memory_bytes: int = 0

    @property
    def is_error(self) -> bool:
        """Whether nothing was found that could be started there."""
        return self.outcome in MISFITS

    def error(self, name: str, hint: str | None) -> DoesNotFitError:
        """The sentence with its arithmetic; `hint` is the next command."""
        account = f"; in GiB a device: {self.layout.arithmetic}" if self.layout and self.layout.arithmetic else ""
        account = account if self.outcome == "too_small" else ""
        return DoesNotFitError(
            f"{name} {MISFITS[self.outcome]} {self.hardware}: {self.reason}{account}.",
            hint=hint,
            needed_bytes=self.layout.weight_bytes if self.layout else 0,
            available_bytes=self.memory_bytes,
            smallest=self.smallest,
        )


def fit_of(sizing: Sizing, *, asked: bool) -> Fit:
    """What the hardware makes of the model.

    Args:
        sizing: of the hardware that was asked for.
        asked: the user named the context himself, so that a shorter one is not what he wants.
    """
    stop = next((fact for fact in sizing.device_facts if fact.stops), None)
    nearest = _nearest(sizing.layouts)
    longest = nearest.kv.longest if nearest and nearest.legal and nearest.kv else 0
    outcome: Outcome = "shorter" if longest >= LEAST_CONTEXT and not asked else "too_small"
    if serving_layouts(sizing.layouts):
        outcome = "serves"
    if stop is not None:
        outcome, longest = "cannot_run", 0
    return Fit(
        outcome,
        hardware=sizing.hardware.text,
        longest=longest,
        reason=stop.text if stop else _reason(nearest, len(sizing.layouts)),
        layout=nearest,
        smallest=sizing.smallest,
        memory_bytes=sizing.hardware.memory_bytes,
    )


def _nearest(layouts: Sequence[LayoutSizing]) -> LayoutSizing | None:
    def nearness(row: LayoutSizing) -> tuple[bool, int, int]:
        return row.legal, row.kv.longest if row.kv else 0, row.kv_pool.likely if row.kv_pool else 0

    return max(layouts, key=nearness, default=None)


def _reason(nearest: LayoutSizing | None, count: int) -> str:
    if nearest is None:
        return "there is no layout for it"
    reason = nearest.reason or "it does not fit"
    return f"under {layout_name(nearest)}, {reason}" if count > 1 else reason


def holds_a_request(sizing: Sizing) -> list[LayoutSizing]:
    """Layouts that start with a shorter context than was sized for, in the sizing's order."""
    if any(fact.stops for fact in sizing.device_facts):
        return []
    return [row for row in sizing.layouts if row.legal and row.kv and row.kv.longest >= LEAST_CONTEXT]


def verdict_words(verdict: Verdict, findings: Sequence[Finding]) -> tuple[str, Tone]:
    """The verdict in plain words; a start that blockers stand against is not called one."""
    blockers = sum(finding.level is Level.BLOCKER for finding in findings)
    if verdict.outcome == "will_start" and blockers:
        return f"will not work as it is ({blockers} blocker{'' if blockers == 1 else 's'})", "bad"
    return OUTCOMES[verdict.outcome]


def refusal(profile: ModelProfile) -> UnsupportedModelError:
    """The error that ends a call for a model which is not served."""
    verdict = profile.verdict
    words, _ = OUTCOMES[verdict.outcome]
    return UnsupportedModelError(f"{profile.ref.name} {words}: {verdict.reason}", hint=verdict.hint)


def answer_words(verdict: Verdict, findings: Sequence[Finding], fit: Fit | None) -> tuple[str, Tone]:
    """Verdict, version and hardware in one phrase: `will start on vLLM 0.32.0, route native`."""
    words, tone = verdict_words(verdict, findings)
    engine = f"vLLM {verdict.vllm_version}"
    if verdict.is_refused:
        return f"{words} on {engine}", tone
    if fit is None or fit.outcome == "serves":
        return f"{words} on {engine}, route {verdict.route}", tone
    if fit.outcome == "shorter":
        return f"{words} on {engine}; on {fit.hardware} with --max-model-len {fit.longest} at most", tone
    misfit = f"{MISFITS[fit.outcome]} {fit.hardware}"
    if tone == "good":
        return f"is served by {engine}, but {misfit}", "bad"
    return f"{words} on {engine}, and {misfit}", "bad"


def why_unsized(profile: ModelProfile) -> str | None:
    """Why there is nothing to say of memory; None where there is."""
    memory = profile.memory
    if not profile.structure.num_layers or not profile.embedding.hidden_size:
        return "not sized: the configuration tells no layers that memory could be counted from"
    keeps = memory.kv_bytes_per_token or memory.state_bytes_per_request
    if profile.verdict.is_refused and not keeps:
        return "not sized: it is not served here, and it keeps no KV cache"
    return None
