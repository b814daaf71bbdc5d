"""How scores follow from q · k: scale, soft cap, visible keys, linear biases, sinks."""

import itertools
from dataclasses import dataclass
from typing import Any

import torch

from autoadapter.artifacts.decoder import Alibi, Value, Window
from autoadapter.probe.workers.fit.attention.core import Core
from autoadapter.probe.workers.fit.attention.sizes import sized
from autoadapter.probe.workers.fit.binding import bind, stated
from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.replay.scores import alibi_slopes
from autoadapter.probe.workers.scene import Block
from autoadapter.probe.workers.trace import Event

HIDDEN = -1000.0
"""Scores below the largest of their row by this are masked; trained and random ones stay far closer."""
ROUNDING = 2e-5
"""Relative error up to which a candidate explains what was seen."""
BIAS_KEYS = ("alibi_bias_max", "attn_config.alibi_bias_max")
WINDOW_KEYS = (
    "sliding_window",
    "sliding_window_size",
    "window_size",
    "attention_window_size",
    "attention_window",
    "local_attention",
    "attention_chunk_size",
    "sliding_window_length",
)


@dataclass(frozen=True)
class Scores:
    """logits = softcap(slope · q·k) + bias, masked."""

    slope: float
    softcap: float | None
    window: tuple[str, int] | None
    alibi: torch.Tensor | None
    """[heads]: slope of the linear bias."""
    sinks: torch.Tensor | None
    """[heads]"""


def fit_scores(core: Core, module: str) -> Scores:
    """Read the steps from scores to softmax.

    Raises:
        UnexplainedError: a mask, a bias or a function that no candidate explains.
    """
    tokens = core.q.value.shape[1]
    logits = core.logits[..., :tokens]
    visible = _visible(logits, module)
    window = _window(visible, module)
    scores = core.scores
    tanh = [event for event in core.events if event.name == "tanh"]
    slope = 1.0
    if tanh:
        scores, slope = _softcap(core, tanh, module)
    slopes, factor, error = _linear(scores, logits, visible)
    if error > ROUNDING:
        why = f"scores are not a scaled q · k with at most a linear bias (error {error:.1e})"
        raise UnexplainedError(module, (("scale and alibi", error),), why)
    sinks = _sinks(core, scores * factor, visible) if core.logits.shape[-1] > tokens else None
    return Scores(slope * factor, factor if tanh else None, window, slopes, sinks)


def _visible(logits: torch.Tensor, module: str) -> torch.Tensor:
    """[tokens, tokens]: which keys a query sees."""
    seen = logits > logits.amax(-1, keepdim=True) + HIDDEN
    if not bool((seen == seen[0]).all()):
        raise UnexplainedError(module, (), "heads see different keys")
    return seen[0]


def _window(visible: torch.Tensor, module: str) -> tuple[str, int] | None:
    tokens = visible.shape[0]
    at = torch.arange(tokens)
    distance = at[:, None] - at[None, :]
    if torch.equal(visible, distance >= 0):
        return None
    size = int(visible.sum(-1).max())
    if torch.equal(visible, (distance >= 0) & (distance < size)):
        return "sliding", size
    if torch.equal(visible, (distance >= 0) & (at[:, None] // size == at[None, :] // size)):
        return "chunked", size
    raise UnexplainedError(module, (), "the mask is neither causal nor a sliding or chunked window")


def _softcap(core: Core, tanh: list[Event], module: str) -> tuple[torch.Tensor, float]:
    """The tanh's output, and what multiplies q · k inside it."""
    if len(tanh) > 1:
        raise UnexplainedError(module, (), "more than one tanh on the scores")
    inside, out = tanh[0].ins[0].value.float(), tanh[0].outs[0].value.float()
    scores = core.scores
    factor = float((inside.flatten() @ scores.flatten()) / (scores.flatten() @ scores.flatten()))
    error = float((inside.reshape(scores.shape) - factor * scores).abs().max() / inside.abs().max())
    if error > ROUNDING:
        raise UnexplainedError(module, (("softcap", error),), "tanh is applied to something else than scaled q · k")
    return out.reshape(scores.shape), factor


def _linear(scores: torch.Tensor, logits: torch.Tensor, visible: torch.Tensor) -> tuple[Any, float, float]:
    """Fit logits ≈ factor · scores + slope(head) · (key - query) + constant(row): (slopes or None, factor, error)."""
    count = visible.sum(-1, keepdim=True)

    def centred(values: torch.Tensor) -> torch.Tensor:
        kept = torch.where(visible, values.double(), 0.0)
        return torch.where(visible, kept - kept.sum(-1, keepdim=True) / count, 0.0)

    at = torch.arange(visible.shape[0], dtype=torch.float64)
    s, y, r = centred(scores), centred(logits), centred(at[None, :].expand(visible.shape))
    size = float(y.abs().max())
    factor = float((s * y).sum() / (s * s).sum())
    error = float((y - factor * s).abs().max()) / size
    if error <= ROUNDING:
        return None, factor, error
    design = torch.cat([s.flatten()[:, None], torch.block_diag(*[r.flatten()[:, None]] * s.shape[0])], 1)
    solved = torch.linalg.lstsq(design, y.flatten()[:, None]).solution[:, 0]
    error = float((y.flatten() - design @ solved).abs().max()) / size
    return solved[1:], float(solved[0]), error


def _sinks(core: Core, scaled: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    """[heads]: the learned logit, its rows' free constants taken out."""
    tokens = scaled.shape[-1]
    shift = torch.where(visible, core.logits[..., :tokens] - scaled, 0.0).sum(-1) / visible.sum(-1)
    return (core.logits[..., tokens] - shift).mean(-1)


def fit_alibi(config: Any, slopes: torch.Tensor, scale: float, module: str) -> tuple[Alibi, Alibi | None]:
    """The formula of the slopes, and the next best.

    Raises:
        UnexplainedError: none gives these slopes.
    """
    heads, tried = slopes.shape[0], []
    held = next((Value(number=float(x), key=key) for key in BIAS_KEYS if (x := stated(config, key)) is not None), None)
    formulas = [Alibi(slopes="mpt", bias_max=held)] if held else [Alibi(), Alibi(slopes="mpt")]
    for alibi, scaled in itertools.product(formulas, (False, True)):
        expected = alibi_slopes(alibi, heads) * (scale if scaled else 1.0)
        error = float((slopes - expected).abs().max() / slopes.abs().max())
        tried.append((error, alibi.model_copy(update={"scaled": scaled})))
    tried.sort(key=lambda pair: pair[0])
    if tried[0][0] > 1e-4:
        near = tuple((f"alibi {alibi.slopes} scaled={alibi.scaled}", error) for error, alibi in tried[:3])
        raise UnexplainedError(module, near, "linear biases whose slopes no formula gives")
    other = next((alibi for error, alibi in tried[1:] if error > 1e-4), None)
    return tried[0][1], other


def fit_window(config: Any, window: tuple[str, int] | None, block: Block) -> Window | None:
    """The window with the config key that states its size, or half or twice it.

    Raises:
        UnexplainedError: no key states it.
    """
    if window is None:
        return None
    kind, size = window
    halves = bind(config, size, WINDOW_KEYS, factors=(1.0, 0.5, 2.0))
    if halves.key is None:
        halves = sized(config, size, WINDOW_KEYS, ("window", "chunk", "local", "span"), block)
    return Window(kind=kind, size=halves)
