"""Bytes that follow from the headers and the config alone."""

from autoadapter.analyze.config import Config
from autoadapter.analyze.headers.checkpoint import is_head
from autoadapter.analyze.headers.tensor import TensorInfo
from autoadapter.analyze.kv_cache import bytes_per_token
from autoadapter.analyze.layers import NONE, SLIDING, layer_count, layer_kinds
from autoadapter.analyze.reading import Evidence
from autoadapter.artifacts.model_profile import MemoryFacts, QuantizationTraits, StateTraits

DTYPES = {"bfloat16": "bfloat16", "float16": "float16", "half": "float16", "float32": "bfloat16", "float": "bfloat16"}
"""Config's dtype → what vLLM's `--dtype auto` serves: float32 is halved (vLLM 0.32 `_get_and_verify_dtype`)."""
FROM_TENSORS = {"BF16": "bfloat16", "F16": "float16", "F32": "bfloat16", "F64": "bfloat16"}
SERVED_BYTES = 2
FLOATS = {"F64", "F32", "F16", "BF16"}


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
    config = evidence.language
    kinds = layer_kinds(config, layer_count(config)).kinds
    tensors = evidence.checkpoint.tensors.values()
    return MemoryFacts(
        weight_bytes=sum(info.bytes for info in tensors),
        served_weight_bytes=_served_bytes(evidence, quantization, tied),
        served_dtype=served_dtype(evidence),
        kv_bytes_per_token=bytes_per_token(config, kinds),
        kv_window_bytes_per_token=_window_bytes(config, kinds),
        state_bytes_per_request=(state.bytes_per_request or 0) if state else 0,
    )


def _window_bytes(config: Config, kinds: tuple[str, ...]) -> int:
    """KV bytes of sliding layers; 0 where a compressed cache of every token stands beside the window (DeepSeek-V4)."""
    if config.found("compress_ratios"):
        return 0
    return bytes_per_token(config, tuple(kind if kind == SLIDING else NONE for kind in kinds))


def served_dtype(evidence: Evidence) -> str:
    """What `--dtype auto` resolves to: the config's word, else the commonest float of the tensors."""
    for config in (evidence.root, evidence.language):
        word = config.text("dtype", "torch_dtype")
        if word is not None:
            return DTYPES.get(word.removeprefix("torch."), "bfloat16")
    counts: dict[str, int] = {}
    for info in evidence.checkpoint.tensors.values():
        counts[info.dtype] = counts.get(info.dtype, 0) + info.elements
    plain = {dtype: count for dtype, count in counts.items() if dtype in FROM_TENSORS}
    quantized_gguf = evidence.checkpoint.format == "gguf" and len(plain) < len(counts)
    return FROM_TENSORS[max(plain, key=lambda dtype: plain[dtype])] if plain and not quantized_gguf else "bfloat16"


def _served_bytes(evidence: Evidence, quantization: QuantizationTraits | None, tied: bool) -> int:
    converted = evidence.checkpoint.format == "gguf"
    kept = (info for info in evidence.checkpoint.tensors.values() if not (tied and is_head(info.name)))
    return sum(_served(info, converted, quantization) for info in kept)


def _served(info: TensorInfo, converted: bool, quantization: QuantizationTraits | None) -> int:
    """A plain float becomes 16-bit; what a quantized checkpoint packs stays as it is, float32 scales too."""
    if converted:
        return 0 if info.name == "rope_freqs.weight" else info.elements * SERVED_BYTES
    plain = info.dtype in FLOATS and quantization is None
    return info.elements * SERVED_BYTES if plain else info.bytes
