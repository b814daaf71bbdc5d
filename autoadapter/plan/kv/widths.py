"""Bytes of one cache entry on one rank, by `--kv-cache-dtype`.

Source: vLLM 0.32 `utils/torch_utils.py` (`STR_DTYPE_TO_TORCH_DTYPE`, `nvfp4_kv_cache_full_dim`), the
`customize_spec` of the Triton, FlashInfer and MLA backends, and
`model_executor/layers/attention/mla_attention.py` (`get_kv_cache_spec`).
"""

from autoadapter.artifacts import CacheEntry

ELEMENT_BYTES = {
    "auto": 2, "half": 2, "float16": 2, "bfloat16": 2, "float": 4, "float32": 4,
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1, "int8": 1, "uint8": 1,
    "int4_per_token_head": 1, "int8_per_token_head": 1, "fp8_per_token_head": 1,
    "fp8_ds_mla": 1, "nvfp4_ds_mla": 1, "nvfp4": 1, "nvfp4_4over6": 1,
}  # fmt: skip
MLA_ROW_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Latent, rotary part and scales of a token in one piece."""
SCALE_BYTES = 8
"""Two float32 scales, of key and value."""
NVFP4_SCALE_GROUP = 16


def element_bytes(word: str, model_dtype: str) -> int:
    """Bytes of one element; of an unknown word those of the model's type."""
    return ELEMENT_BYTES.get(model_dtype if word == "auto" else word, ELEMENT_BYTES.get(model_dtype, 2))


def is_known(word: str) -> bool:
    """Whether the bytes of this cache type are known."""
    return word in ELEMENT_BYTES


def attention_row(entry: CacheEntry, heads: int, word: str, model_dtype: str) -> int:
    """Bytes of one token's keys and values in one layer."""
    if entry.dtype != "cache":
        return heads * (entry.key_dim + entry.value_dim) * element_bytes(entry.dtype, model_dtype)
    if word.startswith("nvfp4") and word not in MLA_ROW_BYTES:
        return heads * (_nvfp4(entry.key_dim) + _nvfp4(entry.value_dim))
    return heads * _packed(entry.key_dim, entry.value_dim, word, model_dtype)


def latent_row(entry: CacheEntry, word: str, model_dtype: str) -> int:
    """Bytes of one token's latent (MLA), or of one index key."""
    if entry.dtype != "cache":
        return entry.key_dim * element_bytes(entry.dtype, model_dtype)
    return MLA_ROW_BYTES.get(word) or _packed(entry.key_dim, 0, word, model_dtype)


def _packed(key: int, value: int, word: str, model_dtype: str) -> int:
    if word == "int4_per_token_head":
        key, value = key // 2, value // 2
    scales = SCALE_BYTES if word.endswith("_per_token_head") else 0
    return (key + value) * element_bytes(word, model_dtype) + scales


def _nvfp4(width: int) -> int:
    return width // 2 + width // NVFP4_SCALE_GROUP
