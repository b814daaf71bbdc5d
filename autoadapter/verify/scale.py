"""How much evidence each depth gathers: one row a depth."""

from dataclasses import dataclass

from autoadapter.artifacts import Depth, Workload


@dataclass(frozen=True)
class Scale:
    """Sizes of the checks. Tokens and requests."""

    parity_lengths: tuple[int, ...]
    """Prompt lengths, sent together; unequal, so that a batch mixes them."""
    parity_longest: int
    """Cap of the one prompt that must exceed the sliding window or the prefill chunk."""
    decode_tokens: int
    windows: int
    """Held-out windows for perplexity."""
    window_tokens: int
    answers: int
    """Greedy answers read by the degeneration detector."""
    answer_tokens: int
    bench_prompts: int
    bench_workload: Workload | None
    """What the benchmark sends; None is the plan's own workload."""
    load_requests: int
    """Least number of concurrent streams; raised to half as many again as `max-num-seqs`, within `load_cap`."""
    load_cap: int
    """Where `max-num-seqs` itself is beyond it, one stream more than that is sent all the same, with short answers."""
    load_tokens: int


SCALES: dict[Depth, Scale] = {
    Depth.SMOKE: Scale(
        parity_lengths=(17, 48, 96, 128),
        parity_longest=1024,
        decode_tokens=24,
        windows=10,
        window_tokens=256,
        answers=4,
        answer_tokens=48,
        bench_prompts=12,
        bench_workload=Workload(input_len=64, output_len=32, concurrency=4),
        load_requests=16,
        load_cap=64,
        load_tokens=24,
    ),
    Depth.STANDARD: Scale(
        parity_lengths=(17, 64, 128, 200, 256, 384, 512),
        parity_longest=8192,
        decode_tokens=64,
        windows=24,
        window_tokens=512,
        answers=12,
        answer_tokens=128,
        bench_prompts=64,
        bench_workload=None,
        load_requests=64,
        load_cap=512,
        load_tokens=64,
    ),
    Depth.FULL: Scale(
        parity_lengths=(17, 64, 128, 200, 256, 384, 512, 768, 1024, 1536),
        parity_longest=32768,
        decode_tokens=256,
        windows=64,
        window_tokens=1024,
        answers=32,
        answer_tokens=256,
        bench_prompts=512,
        bench_workload=None,
        load_requests=256,
        load_cap=512,
        load_tokens=256,
    ),
}
