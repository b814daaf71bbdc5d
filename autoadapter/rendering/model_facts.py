"""The verdict and the model's own facts in words, in as few lines as they take."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from autoadapter.artifacts import Finding, Level, ModelProfile, Sizing
from autoadapter.artifacts.model_profile import Verdict
from autoadapter.rendering.words import group_words, layer_numbers
from autoadapter.units import human_bytes, human_count

MOST_GROUPS, MOST_FILES = 4, 3

TOO_SMALL = "sizing.does-not-fit"
Tone = Literal["good", "bad", "unsure"]
OUTCOMES: dict[str, tuple[str, Tone]] = {
    "will_start": ("will start", "good"),
    "starts_but_wrong": ("will start but answer wrongly", "bad"),
    "will_not_start": ("will not start", "bad"),
    "unprovable_here": ("is unprovable here", "unsure"),
}


def verdict_words(verdict: Verdict, findings: Sequence[Finding]) -> tuple[str, Tone]:
    """The verdict in plain words; a start that blockers stand against is not called one."""
    blockers = sum(finding.level is Level.BLOCKER for finding in findings)
    if verdict.outcome == "will_start" and blockers:
        return f"will not work as it is ({blockers} blocker{'' if blockers == 1 else 's'})", "bad"
    return OUTCOMES[verdict.outcome]


def proof(verdict: Verdict, most: int | None = None) -> str:
    """The line that proves the verdict, with its source.

    Args:
        verdict: what `analyze` found.
        most: characters of the reason to show; the rest is in the profile.
    """
    reason = verdict.reason if most is None else textwrap.shorten(verdict.reason, most, placeholder=" …")
    decision = next((row for row in verdict.decisions if row.taken), None) or next(iter(verdict.decisions), None)
    return f"{reason}  ({decision.source})" if decision else reason


def all_findings(profile: ModelProfile, sizings: Sequence[Sizing]) -> tuple[Finding, ...]:
    """The profile's and the sizings', each once, worst first.

    Where several machines were sized, none of them was asked for: that one of them is too small is no news.
    """
    order = list(Level)
    others = [row for sizing in sizings for row in sizing.findings if len(sizings) == 1 or row.code != TOO_SMALL]
    once = {(row.code, row.message): row for row in (*profile.findings, *others)}
    return tuple(sorted(once.values(), key=lambda row: order.index(row.level)))


def fact_rows(profile: ModelProfile, *, verbose: bool = False) -> list[tuple[str, str]]:
    """Name and value of what the model is."""
    rows = [
        *_size(profile),
        ("layers", layers(profile)),
        ("attention", attention(profile)),
        ("context", context(profile)),
        *_experts(profile),
        ("tokenizer", tokenizer(profile)),
        ("quantization", f"{quantization(profile)}; remote code: {remote_code(profile)}"),
        *_software(profile),
        *_beside(profile),
    ]
    return [*rows, *_details(profile)] if verbose else rows


def _size(profile: ModelProfile) -> Iterator[tuple[str, str]]:
    tensors, memory = profile.tensors, profile.memory
    if not tensors.tensors:
        served = human_bytes(profile.structure.served_bytes)
        yield "weights", f"none here; {served} served as {memory.served_dtype}, by the config"
        yield "KV cache", kv_cache(profile)
        return
    dtypes = ", ".join(f"{dtype} {human_count(count)}" for dtype, count in tensors.parameters_by_dtype.items())
    yield "parameters", f"{human_count(tensors.parameters)} in {tensors.tensors} tensors ({dtypes})"
    stored = f"{human_bytes(memory.weight_bytes)} as {tensors.format} in {len(tensors.files)} file(s)"
    yield "weights", f"{stored}; {human_bytes(memory.served_weight_bytes)} served as {memory.served_dtype}"
    yield "KV cache", kv_cache(profile)


def kv_cache(profile: ModelProfile) -> str:
    """Bytes a token, and what does not grow with tokens."""
    memory = profile.memory
    text = f"{human_bytes(memory.kv_bytes_per_token)} a token at 16 bit"
    if memory.kv_window_bytes_per_token:
        text += f", {human_bytes(memory.kv_window_bytes_per_token)} of it within a window only"
    return text + (
        f"; {human_bytes(memory.state_bytes_per_request)} of state a request" if memory.state_bytes_per_request else ""
    )


def layers(profile: ModelProfile) -> str:
    """`36 × full attention + dense MLP, hidden 4096`; most frequent kinds first."""
    counts: Counter[str] = Counter()
    for group in profile.structure.groups:
        counts[group_words(group)] += len(group.layers)
    kinds = [f"{count} × {words}" for words, count in counts.most_common()]
    more = [f"{len(kinds) - MOST_GROUPS} kinds more"] if len(kinds) > MOST_GROUPS else []
    return ", ".join([*kinds[:MOST_GROUPS], *more, f"hidden {profile.embedding.hidden_size}"])


def attention(profile: ModelProfile) -> str:
    """Heads and what is special about them."""
    traits = profile.attention
    heads = f"{traits.num_attention_heads} heads, {traits.num_key_value_heads} KV heads of {traits.head_dim}"
    window = f"window {traits.sliding_window} on {traits.num_sliding_layers}" if traits.sliding_window else ""
    special = [*(["QK norm"] if traits.qk_norm else []), *(["sinks"] if traits.sinks else [])]
    return ", ".join(part for part in (traits.kind, heads, window, *special) if part)


def context(profile: ModelProfile) -> str:
    """Length and rotary embedding."""
    text, rope = f"{profile.max_model_len:,} tokens", profile.rope
    if rope is None:
        return text
    factor = f", factor {rope.factor:g}" if rope.factor else ""
    return f"{text}; RoPE {rope.kind}, theta {rope.theta:g}{factor}"


def _experts(profile: ModelProfile) -> Iterator[tuple[str, str]]:
    if moe := profile.moe:
        shared = f", {moe.num_shared_experts} shared" if moe.num_shared_experts else ""
        yield "MoE", f"{moe.num_experts} experts, {moe.num_experts_per_tok} a token{shared}"


def tokenizer(profile: ModelProfile) -> str:
    """Kind, size, where it stops, whether it can chat."""
    traits = profile.tokenizer
    template = f"chat template from {traits.chat_template_source}" if traits.has_chat_template else "no chat template"
    stops = ", ".join(map(str, traits.stop_token_ids)) or "no known token"
    return f"{traits.kind}, {traits.vocab_size or '?'} tokens, stops at {stops}, {template}"


def quantization(profile: ModelProfile) -> str:
    """Method and bits."""
    traits = profile.quantization
    return f"{traits.method}, {traits.bits or '?'} bit" if traits else "none"


def remote_code(profile: ModelProfile) -> str:
    """Files of code that come along."""
    remote = profile.remote_code
    names = (remote.files or tuple(remote.auto_map)) if remote else ()
    more = f" and {len(names) - MOST_FILES} more" if len(names) > MOST_FILES else ""
    return ", ".join(names[:MOST_FILES]) + more or "none"


def _software(profile: ModelProfile) -> Iterator[tuple[str, str]]:
    """What must be installed beside the weights."""
    needs = profile.dependencies
    parts = [f"transformers {needs.min_transformers} or newer"] if needs.min_transformers else []
    parts += [f"transformers up to {needs.max_transformers}"] if needs.max_transformers else []
    parts += [f"vLLM {needs.min_vllm} or newer"] if needs.min_vllm else []
    parts += [package.name for package in needs.packages if not package.optional]
    if parts:
        yield "needs", ", ".join(parts)


def _beside(profile: ModelProfile) -> Iterator[tuple[str, str]]:
    for encoder in profile.structure.encoders:
        tokens = (
            f"at most {encoder.tokens_per_item:,} tokens an item" if encoder.tokens_per_item else "tokens not known"
        )
        yield encoder.modality, f"{encoder.model_type}, {human_bytes(encoder.weight_bytes)}, {tokens}"
    if profile.structure.predictor_bytes:
        size = human_bytes(profile.structure.predictor_bytes)
        yield "predictor", f"{size} of multi-token prediction, loaded for speculative decoding only"


def _details(profile: ModelProfile) -> Iterator[tuple[str, str]]:
    for token in profile.tokenizer.special_tokens:
        yield f"token {token.role}", f"{token.text} ({token.id})"
    for group in profile.structure.groups:
        size = human_bytes(group.weights.total)
        yield "layers " + layer_numbers(group.layers), f"{group_words(group)}, {size} of weights each"
    for encoder in profile.structure.encoders:
        yield f"{encoder.modality} tokens", encoder.why
    yield "license", profile.license or "not stated"
    yield from profile.sources.items()
