"""Bytes of one stored tensor once it is served."""

import re

from autoadapter.analyze.headers.tensor import TensorInfo

SERVED_BYTES = 2
FLOATS = {"F64", "F32", "F16", "BF16"}
BUFFER = re.compile(r"(^|\.)(inv_freq|position_ids|masked_bias|rope_freqs\.weight|rotary_emb\.\w+)$")
"""Tensors that engines compute themselves and do not load."""
MASK = (".attn.bias", ".attention.bias")
MASK_DIMENSIONS = 4
"""GPT-2 and GPT-NeoX store their mask as `attn.bias` of shape [1, 1, n, n]."""


def served_bytes(info: TensorInfo, *, converted: bool, quantized: bool) -> int:
    """A plain float becomes 16-bit; what a quantized checkpoint packs stays as it is, float32 scales too.

    Args:
        info: the tensor.
        converted: it is a GGUF's, which is served after conversion.
        quantized: the checkpoint is quantized.
    """
    if is_buffer(info):
        return 0
    if converted or (info.dtype in FLOATS and not quantized):
        return info.elements * SERVED_BYTES
    return info.bytes


def is_buffer(info: TensorInfo) -> bool:
    """Whether a tensor is a stray buffer."""
    if info.name.endswith(("inv_freq", "_ids", "masked_bias", "_freqs.weight")) or "rotary_emb" in info.name:
        return BUFFER.search(info.name) is not None
    return info.name.endswith(MASK) and len(info.shape) == MASK_DIMENSIONS
