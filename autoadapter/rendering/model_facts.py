"""The verdict and the model's own facts in words, in as few lines as they take."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from autoadapter.artifacts import CacheEntry, Finding, Level, ModelProfile, Sizing
from autoadapter.artifacts.model_profile import Verdict
from autoadapter.rendering.fit import why_unsized
from autoadapter.rendering.words import (
    LATENT_KINDS,
    cache_bytes_per_token,
    group_words,
    is_compressed,
    kv_dtype_of,
    layer_numbers,
    number,
)
from autoadapter.units import human_bytes, human_count

MOST_GROUPS, MOST_FILES = 4, 3
SPARSE = 0.98
"""Where a token uses a larger part of the parameters, all of them count as active."""

COMPRESSED = "compressed by layer; see KV tokens"
"""Instead of bytes a token, where tokens share entries."""
TOO_SMALL = "sizing.does-not-fit"


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

    Where several machines were sized, none of them was asked for: that one of them is too small is no news. What cannot
    be sized at all has no findings of its size.
    """
    sizings = () if why_unsized(profile) else sizings
    order = list(Level)
    others = [row for sizing in sizings for row in sizing.findings if len(sizings) == 1 or row.code != TOO_SMALL]
    once = {(row.code, row.message): row for row in (*profile.findings, *others)}
    return tuple(sorted(once.values(), key=lambda row: order.index(row.level)))


def fact_rows(profile: ModelProfile, sizing: Sizing | None = None, *, verbose: bool = False) -> list[tuple[str, str]]:
    """Name and value of what the model is; a sizing adds how many parameters one token uses."""
    rows = [
        *_size(profile, sizing),
        ("KV cache", kv_cache(profile)),
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


def _size(profile: ModelProfile, sizing: Sizing | None) -> Iterator[tuple[str, str]]:
    tensors, memory, count = profile.tensors, profile.memory, parameters(profile, sizing)
    if not tensors.tensors:
        if count:
            yield "size", f"{count}, by the configuration"
        served = human_bytes(profile.structure.served_bytes)
        yield "weights", f"none here; {served} served as {served_as(profile)}, by the configuration"
        return
    dtypes = ", ".join(f"{dtype} {human_count(count)}" for dtype, count in tensors.parameters_by_dtype.items())
    yield "size", f"{count}, in {tensors.tensors:,} tensors ({dtypes})"
    stored = f"{human_bytes(memory.weight_bytes)} as {tensors.format} in {len(tensors.files)} file(s)"
    yield "weights", f"{stored}; {human_bytes(memory.served_weight_bytes)} served as {served_as(profile)}"


def parameters(profile: ModelProfile, sizing: Sizing | None = None) -> str:
    """`30.5B parameters, 3.35B active a token`; empty where neither headers nor configuration tell."""
    known = profile.tensors.parameters or (sizing.parameters if sizing else 0)
    if not known:
        return ""
    active = sizing.active_parameters if sizing else 0
    part = f", {human_count(active)} active a token" if 0 < active < known * SPARSE else ""
    return f"{human_count(known)} parameters{part}"


def served_as(profile: ModelProfile) -> str:
    """In which type the engine holds the weights: `fp8 (8 bit)`, `bfloat16`, `bfloat16 after conversion`."""
    traits, dtype = profile.quantization, profile.memory.served_dtype
    if profile.tensors.format == "gguf" or (traits and traits.method == "gguf"):
        return f"{dtype} after conversion"
    if traits is None:
        return dtype
    return f"{traits.method} ({traits.bits} bit)" if traits.bits else traits.method


def kv_cache(profile: ModelProfile) -> str:
    """Bytes a token at the type that the cache will have, and what does not grow with tokens."""
    memory, state = profile.memory, profile.memory.state_bytes_per_request
    text = _of_a_token(profile) if memory.kv_bytes_per_token or _caches(profile) else "" if state else "none"
    kept = f"{human_bytes(state)} of state a request" if state else ""
    return "; ".join(part for part in (text, kept) if part)


def _of_a_token(profile: ModelProfile) -> str:
    memory, caches, dtype = profile.memory, _caches(profile), kv_dtype_of(profile)
    if is_compressed(caches):
        return COMPRESSED
    every, windowed = memory.kv_bytes_per_token, memory.kv_window_bytes_per_token
    if dtype and caches:
        every = round(cache_bytes_per_token(caches, dtype))
        windowed = round(cache_bytes_per_token((cache for cache in caches if cache.window), dtype)) if windowed else 0
    text = f"{human_bytes(every)} a token at {f'{dtype}, set by the checkpoint' if dtype and caches else '16 bit'}"
    return text + (f", {human_bytes(windowed)} of it within a window only" if windowed else "")


def _caches(profile: ModelProfile) -> list[CacheEntry]:
    """Of all layers."""
    return [cache for group in profile.structure.groups for _ in group.layers for cache in group.caches]


def layers(profile: ModelProfile) -> str:
    """`36 × full attention + dense MLP, hidden 4096`; most frequent kinds first."""
    counts: Counter[str] = Counter()
    for group in profile.structure.groups:
        counts[group_words(group)] += len(group.layers)
    kinds = [f"{count} × {words}" for words, count in counts.most_common()]
    more = [f"{len(kinds) - MOST_GROUPS} kinds more"] if len(kinds) > MOST_GROUPS else []
    return ", ".join([*kinds[:MOST_GROUPS], *more, f"hidden {profile.embedding.hidden_size:,}"])


def attention(profile: ModelProfile) -> str:
    """Heads and what is special about them."""
    traits = profile.attention
    heads = f"{traits.num_attention_heads:,} heads, {_kept_heads(profile)}"
    window = f"window {traits.sliding_window:,} on {traits.num_sliding_layers}" if traits.sliding_window else ""
    special = [*(["QK norm"] if traits.qk_norm else []), *(["sinks"] if traits.sinks else [])]
    return ", ".join(part for part in (traits.kind, heads, window, *special) if part)


def _kept_heads(profile: ModelProfile) -> str:
    traits, caches = profile.attention, _caches(profile)
    latents = sorted({cache.key_dim for cache in caches if cache.kind == "mla"})
    if latents and all(cache.kind in LATENT_KINDS for cache in caches):
        sizes = " and ".join(f"{size:,}" for size in latents)
        return f"{'one latent' if len(latents) == 1 else 'latents'} of {sizes}"
    if traits.kind == "mla" and traits.kv_lora_rank:
        return f"one latent of {traits.kv_lora_rank + (traits.qk_rope_head_dim or 0)}"
    return f"{traits.num_key_value_heads:,} KV heads of {traits.head_dim}"


def context(profile: ModelProfile) -> str:
    """Length and rotary embedding."""
    text, rope = f"{profile.max_model_len:,} tokens", profile.rope
    if rope is None:
        return text
    factor = f", factor {rope.factor:g}" if rope.factor else ""
    return f"{text}; RoPE {rope.kind}, theta {number(rope.theta)}{factor}"


def _experts(profile: ModelProfile) -> Iterator[tuple[str, str]]:
    if moe := profile.moe:
        shared = f", {moe.num_shared_experts} shared" if moe.num_shared_experts else ""
        yield "MoE", f"{moe.num_experts} experts, {moe.num_experts_per_tok} a token{shared}"


def tokenizer(profile: ModelProfile) -> str:
    """Kind, size, where it stops, whether it can chat."""
    traits = profile.tokenizer
    if traits.kind == "none":
        return "none"
    size = f"{traits.vocab_size:,} tokens" if traits.vocab_size else "size not known"
    template = f"chat template from {traits.chat_template_source}" if traits.has_chat_template else "no chat template"
    stops = ", ".join(map(str, traits.stop_token_ids)) or "no known token"
    return f"{traits.kind}, {size}, stops at {stops}, {template}"


def quantization(profile: ModelProfile) -> str:
    """Method and bits."""
    traits = profile.quantization
    if traits is None:
        return "none"
    return f"{traits.method}, {traits.bits} bit" if traits.bits else traits.method


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
