"""What quantization costs as served: held-out perplexity before and after, and answers that do not degenerate."""

import math
import operator
from dataclasses import dataclass
from typing import TypeVar

from autoadapter.artifacts import CheckResult, Threshold
from autoadapter.engine.client import EngineClient, Generation, TopLogprobs
from autoadapter.engine.schemes import scheme
from autoadapter.verify import texts
from autoadapter.verify.context import CheckContext, concurrently
from autoadapter.verify.degeneration import is_degenerate
from autoadapter.verify.engines import Role
from autoadapter.verify.judge import Measured, judged, not_run
from autoadapter.verify.memory_guard import reference_too_large
from autoadapter.verify.request import AS_IS
from autoadapter.verify.stats import mean, standard_error

IN_FLIGHT = 4
T = TypeVar("T")
ANSWERED_SOURCE = "an answer without tokens shows nothing: the server must return the ids it generated"
LOOPING_SOURCE = "half of the answers: an original that loops on most of them makes no limit for the candidate"
SHARP_SOURCE = "two standard errors must fit into the limit, or the text is too short to tell"
ANSWERS_SOURCE = (
    "as many as the unquantized model gives; half where there is no other to compare with (small models loop)"
)


@dataclass(frozen=True)
class Window:
    """A piece of held-out text."""

    text: str
    ids: list[int]


@dataclass(frozen=True)
class Side:
    """One model over all windows: per window, the log-probability of each token and the likeliest token before it."""

    logprobs: list[list[float]]
    best: list[list[int]]
    degenerate: int | None = None
    """Answers that are empty or repeat themselves; None when the side was not asked."""
    answered_tokens: int = 0
    """Tokens of all answers together."""


class QualityCheck:
    """Served quantized against served unquantized; where nothing was quantized, served against transformers."""

    name = "quality"
    title = "Quality: perplexity on held-out text, and sane answers"
    needs = (Role.REFERENCE, Role.CANDIDATE)

    def run(self, context: CheckContext) -> CheckResult:
        """Measure the reference, then the candidate, on the same tokens."""
        unchanged = context.request.unchanged
        too_large = reference_too_large(context.request.profile) if unchanged else None
        if too_large:
            return not_run(self, too_large)
        windows = held_out_windows(context, context.client(Role.REFERENCE))
        context.progress(f"quality: {len(windows)} windows of held-out text")
        before = by_transformers(context, windows) if unchanged else by_server(context, Role.REFERENCE, windows)
        after = by_server(context, Role.CANDIDATE, windows)
        return self._verdict(context, windows, before, after)

    def _verdict(self, context: CheckContext, windows: list[Window], before: Side, after: Side) -> CheckResult:
        name = context.request.optimized.scheme.name
        limit = texts.quality_limit(None if name == AS_IS else scheme(name).served_bits)
        deltas = [b - a for b, a in paired(before.logprobs, after.logprobs)]
        delta, error = mean(deltas), standard_error(deltas)
        nll_before, nll_after = (-mean([x for row in side.logprobs for x in row]) for side in (before, after))
        same = [float(b == a) for b, a in paired(before.best, after.best)]
        thresholds = [
            Threshold(name="delta_nll_lower", limit=limit.nats, direction="<=", source=limit.source),
            Threshold(name="delta_nll_se", limit=limit.nats / 2, direction="<=", source=SHARP_SOURCE),
            *answer_thresholds(before, context.scale.answers),
        ]
        summary = (
            f"Perplexity {math.exp(nll_before):.3f} before and {math.exp(nll_after):.3f} as served "
            f"({delta:+.4f} ± {error:.4f} nats a token over {len(deltas)} tokens)."
        )
        measured: Measured = {
            "scheme": name,
            "compared_with": "transformers, float32" if context.request.unchanged else "unquantized checkpoint in vLLM",
            "tokens": len(deltas),
            "perplexity_before": math.exp(nll_before),
            "perplexity_after": math.exp(nll_after),
            "delta_nll": delta,
            "delta_nll_se": error,
            "delta_nll_lower": delta - 2 * error,
            "top1_agreement": mean(same),
            "degenerate_answers": after.degenerate,
            "reference_degenerate_answers": before.degenerate,
            "answered_tokens": after.answered_tokens,
            "answers": context.scale.answers,
            "windows": [
                {"text": window.text, "before": -mean(was), "after": -mean(now)}
                for window, was, now in zip(windows, before.logprobs, after.logprobs, strict=True)
            ],
        }
        return judged(self, measured, thresholds, summary)


def answer_thresholds(before: Side, answers: int) -> list[Threshold]:
    """Limits on the candidate's greedy answers, and on the original's where it was asked: a loop is no yardstick."""
    half = answers // 2
    allowed = half if before.degenerate is None else min(before.degenerate, half)
    found = [
        Threshold(name="answered_tokens", limit=1, direction=">=", source=ANSWERED_SOURCE),
        Threshold(name="degenerate_answers", limit=allowed, direction="<=", source=ANSWERS_SOURCE),
    ]
    if before.degenerate is None:
        return found
    name = "reference_degenerate_answers"
    return [*found, Threshold(name=name, limit=half, direction="<=", source=LOOPING_SOURCE)]


def paired(before: list[list[T]], after: list[list[T]]) -> list[tuple[T, T]]:
    """Values of the same token before and after, over all windows."""
    return [pair for was, now in zip(before, after, strict=True) for pair in zip(was, now, strict=True)]


def held_out_windows(context: CheckContext, client: EngineClient) -> list[Window]:
    """Windows of the held-out texts, taken in turn from each text until the depth has enough."""
    size = min(context.scale.window_tokens, client.max_model_len() - 2)
    cut = {name: windows_of(name, client.tokenize(texts.heldout(name)), size) for name in texts.HELDOUT}
    longest = max(len(windows) for windows in cut.values())
    in_turn = [cut[name][at] for at in range(longest) for name in texts.HELDOUT if at < len(cut[name])]
    return in_turn[: context.scale.windows]


def windows_of(name: str, ids: list[int], size: int) -> list[Window]:
    """Consecutive windows; a rest shorter than half a window is left out unless it is all there is."""
    pieces = [ids[start : start + size] for start in range(0, len(ids), size)]
    whole = [piece for piece in pieces if len(piece) >= size // 2] or pieces[:1]
    return [Window(name, piece) for piece in whole]


def by_server(context: CheckContext, role: Role, windows: list[Window]) -> Side:
    """Log-probabilities as the role's server computes them, and how many greedy answers degenerate."""
    client = context.client(role)
    logprobs: list[list[float]] = []
    best: list[list[int]] = []
    for start in range(0, len(windows), IN_FLIGHT):
        part = windows[start : start + IN_FLIGHT]
        context.progress(f"quality: {role}, window {start + 1} of {len(windows)}", start / len(windows))
        for window, tops in zip(part, concurrently(lambda w: client.prompt_logprobs(w.ids, 1), part), strict=True):
            logprobs.append([top[token] for token, top in zip(window.ids[1:], tops, strict=True)])
            best.append([likeliest(top) for top in tops])
    answers = greedy_answers(context, client)
    stuck = sum(is_degenerate(answer.ids) or not answer.text.strip() for answer in answers)
    return Side(logprobs, best, stuck, sum(len(answer.ids) for answer in answers))


def likeliest(top: TopLogprobs) -> int:
    """The token with the highest log-probability."""
    return max(top.items(), key=operator.itemgetter(1))[0]


def by_transformers(context: CheckContext, windows: list[Window]) -> Side:
    """Log-probabilities of transformers in float32."""
    sequences = [{"ids": w.ids, "first": 0, "tokens": [[token] for token in w.ids[1:]]} for w in windows]
    passes = [{"name": "exact", "dtype": "float32", "logit_scale": 1.0}]
    request = {"model": context.request.optimized.reference_path, "passes": passes, "sequences": sequences}
    results = context.worker("logprobs", request)["exact"]
    return Side([[row[0] for row in item["logprobs"]] for item in results], [item["argmax"] for item in results])


def greedy_answers(context: CheckContext, client: EngineClient) -> list[Generation]:
    """Answers to as many plain questions as the depth asks."""
    questions = texts.prompts()[: context.scale.answers]
    if context.request.profile.tokenizer.has_chat_template:
        chats = [[{"role": "user", "content": question}] for question in questions]
        return concurrently(lambda chat: client.chat(chat, context.scale.answer_tokens), chats)
    ids = [client.tokenize(f"Question: {question}\nAnswer:") for question in questions]
    return concurrently(lambda prompt: client.generate(prompt, context.scale.answer_tokens), ids)
