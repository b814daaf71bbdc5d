"""Bytes that follow from the headers and the config alone."""

from autoadapter.analyze.headers.checkpoint import is_head
from autoadapter.analyze.layers import layer_count, layer_kinds
from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.structure.caches import bytes_per_token, layer_caches
from autoadapter.analyze.structure.language import family_config
from autoadapter.analyze.structure.served import served_bytes
from autoadapter.artifacts.model_profile import MemoryFacts, QuantizationTraits, StateTraits

DTYPES = {"bfloat16": "bfloat16", "float16": "float16", "half": "float16", "float32": "bfloat16", "float": "bfloat16"}
"""Config's dtype → what vLLM's `--dtype auto` serves: float32 is halved (vLLM 0.32 `_get_and_verify_dtype`)."""
FROM_TENSORS = {"BF16": "bfloat16", "F16": "float16", "F32": "bfloat16", "F64": "bfloat16"}


def memory_facts(
    evidence: Evidence, quantization: QuantizationTraits | None, state: StateTraits | None, tied: bool
) -> MemoryFacts:
    """Weights, KV cache and state of the whole model on one device.

    Args:
        evidence: the model.
        quantization: its traits; a GGUF is served after conversion, as plain floats.
        state: its recurrent layers.
        tied: a stored copy of the embedding as head is not held twice.
    """
    config = family_config(evidence)
    kinds = layer_kinds(config, layer_count(config)).kinds
    caches = [entry for layer, kind in enumerate(kinds) for entry in layer_caches(config, layer, kind)]
    return MemoryFacts(
        weight_bytes=sum(info.bytes * count for _, info, count in evidence.checkpoint.alike),
        served_weight_bytes=_served_bytes(evidence, quantization, tied),
        served_dtype=served_dtype(evidence),
        kv_bytes_per_token=bytes_per_token(caches),
        kv_window_bytes_per_token=bytes_per_token(caches, windowed_only=True),
        state_bytes_per_request=(state.bytes_per_request or 0) if state else 0,
    )


def served_dtype(evidence: Evidence) -> str:
    """What `--dtype auto` resolves to: the config's word, else the commonest float of the tensors."""
    for config in (evidence.root, evidence.language):
        word = config.text("dtype", "torch_dtype")
        if word is not None:
            return DTYPES.get(word.removeprefix("torch."), "bfloat16")
    counts: dict[str, int] = {}
    for _, info, count in evidence.checkpoint.alike:
        counts[info.dtype] = counts.get(info.dtype, 0) + info.elements * count
    plain = {dtype: count for dtype, count in counts.items() if dtype in FROM_TENSORS}
    quantized_gguf = evidence.checkpoint.format == "gguf" and len(plain) < len(counts)
    return FROM_TENSORS[max(plain, key=lambda dtype: plain[dtype])] if plain and not quantized_gguf else "bfloat16"


def _served_bytes(evidence: Evidence, quantization: QuantizationTraits | None, tied: bool) -> int:
    converted = evidence.checkpoint.format == "gguf"
    return sum(
        served_bytes(info, converted=converted, quantized=quantization is not None) * count
        for kind, info, count in evidence.checkpoint.alike
        if not (tied and is_head(kind))
    )
