"""A burst larger than the server takes at once: every request must come back whole."""

import resource
import time

from autoadapter.artifacts import CheckResult, ServingPlan, Threshold
from autoadapter.engine.client import EngineClient, Messages, Metrics, StreamedAnswer
from autoadapter.verify import texts
from autoadapter.verify.context import CheckContext, concurrently
from autoadapter.verify.engines import Role
from autoadapter.verify.judge import Measured, judged, not_run
from autoadapter.verify.scale import Scale
from autoadapter.verify.stats import percentile

DEFAULT_MAX_NUM_SEQS = 1024  # the most that vLLM takes when the plan leaves it open (arg_utils.py)
MOST_STREAMS = 2048
"""One thread and one socket each: more would measure this client, not the server."""
SPARE_FILES = 128
"""Open files that the process keeps for other things."""
SHORT_TOKENS = 16
"""Length of answers where the seats alone take more streams than the depth would send."""
SETTLE_SECONDS = 10.0
CROWDED = "a burst that fits into max-num-seqs queues nothing"
LOST = "a server that loses requests under load loses them in production"


class LoadCheck:
    """Concurrent streams, more than `max-num-seqs`, none of which may be lost."""

    name = "load"
    title = "Load: no request is lost in a burst"
    needs = (Role.CANDIDATE,)

    def run(self, context: CheckContext) -> CheckResult:
        """Send all streams at once; compare what clients saw with what the server counted."""
        client = context.client(Role.CANDIDATE)
        seats, bound = seats_of(context.request.plan), most_streams()
        if seats >= bound:
            return not_run(
                self, f"the plan seats {seats} requests at once and this process can send {bound} (ulimit -n)"
            )
        count, tokens = burst(context.scale, seats, bound)
        context.progress(f"load: {count} requests at once")
        before = client.metrics()
        began = time.monotonic()
        prompts = load_prompts(count, chat=context.request.profile.tokenizer.has_chat_template)
        answers = concurrently(lambda prompt: client.stream(prompt, tokens), prompts)
        seconds = time.monotonic() - began
        after = settled(client)
        return self._verdict(answers, seats, seconds, counted(before, after))

    def _verdict(self, answers: list[StreamedAnswer], seats: int, seconds: float, server: Measured) -> CheckResult:
        lost = [answer for answer in answers if why_lost(answer)]
        first = sorted(a.first_token_seconds for a in answers if a.first_token_seconds is not None)
        whole = sorted(a.seconds for a in answers)
        measured: Measured = {
            "requests": len(answers),
            "max_num_seqs": seats,
            "lost": len(lost),
            "first_loss": why_lost(lost[0]) if lost else None,
            "seconds": seconds,
            "ttft_p50": percentile(first, 50),
            "ttft_p99": percentile(first, 99),
            "e2e_p50": percentile(whole, 50),
            "e2e_p99": percentile(whole, 99),
            "ttft_seconds": [round(value, 4) for value in first],
            "e2e_seconds": [round(value, 4) for value in whole],
            **server,
        }
        counted_by_server = "the server's own count of finished requests"
        thresholds = [
            Threshold(name="requests", limit=seats + 1, direction=">=", source=CROWDED),
            Threshold(name="lost", limit=0, direction="==", source=LOST),
            Threshold(name="server_finished", limit=len(answers), direction="==", source=counted_by_server),
            Threshold(name="still_running", limit=0, direction="==", source="num_requests_running and _waiting"),
        ]
        crowd = f"{len(answers)} streams at once for {seats} seats"
        summary = f"{crowd}: none lost, {server['preemptions']:g} preemptions, {seconds:.1f} s."
        return judged(self, measured, thresholds, summary)


def seats_of(plan: ServingPlan) -> int:
    """Requests that the server computes at once: `max-num-seqs` of every data-parallel engine."""
    planned = plan.setting("max-num-seqs")
    seats = planned if isinstance(planned, int) else DEFAULT_MAX_NUM_SEQS
    return seats * plan.parallelism.data_parallel_size


def most_streams() -> int:
    """Streams that this process may open: `MOST_STREAMS`, or what its limit of open files leaves."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_STREAMS if files == resource.RLIM_INFINITY else min(MOST_STREAMS, files - SPARE_FILES)


def burst(scale: Scale, seats: int, bound: int) -> tuple[int, int]:
    """How many streams, and the most tokens of each answer: half as many again as seats, and always one more.

    Args:
        scale: the depth's own number, cap and length.
        seats: requests that the server computes at once, less than `bound`.
        bound: streams that this process may open.
    """
    wanted = max(scale.load_requests, min(seats + seats // 2 + 1, scale.load_cap), seats + 1)
    tokens = scale.load_tokens if wanted <= scale.load_cap else min(scale.load_tokens, SHORT_TOKENS)
    return min(wanted, bound), tokens


def load_prompts(count: int, *, chat: bool) -> list[str | Messages]:
    """Questions of unequal length; each differs in its first words, so that no prefix cache answers."""
    questions = texts.prompts()
    found: list[str | Messages] = []
    for number in range(count):
        question = f"({number}) {questions[number % len(questions)]}" + " Be brief." * (number % 7)
        found.append([{"role": "user", "content": question}] if chat else question)
    return found


def why_lost(answer: StreamedAnswer) -> str | None:
    """What was wrong with an answer, None when it came back whole."""
    if answer.error or answer.status != 200:
        return f"status {answer.status}: {answer.error}"
    if not answer.done:
        return "the stream ended without [DONE]"
    if answer.finish_reason not in ("stop", "length"):
        return f"finish_reason was {answer.finish_reason}"
    return None if answer.text else "the answer was empty"


def settled(client: EngineClient) -> Metrics:
    """Metrics once nothing runs or waits any more, or after a grace."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while unfinished(metrics := client.metrics()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return metrics


def unfinished(metrics: Metrics) -> float:
    """Requests that the engine still holds."""
    return metrics.total("vllm:num_requests_running") + metrics.total("vllm:num_requests_waiting")


def counted(before: Metrics, after: Metrics) -> Measured:
    """What the server counted in between."""

    def grown(name: str, containing: str = "") -> float:
        return after.total(name, containing) - before.total(name, containing)

    good = [f'finished_reason="{reason}"' for reason in ("stop", "length")]
    return {
        "server_finished": sum(grown("vllm:request_success_total", label) for label in good),
        "server_aborted": grown("vllm:request_success_total", 'finished_reason="abort"'),
        "still_running": unfinished(after),
        "preemptions": grown("vllm:num_preemptions_total"),
        "generated_tokens": grown("vllm:generation_tokens_total"),
    }
