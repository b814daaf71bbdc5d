"""What a quantization config says, whichever tool wrote it.

Rules follow vLLM 0.32: `model_arch_config_convertor.py:_normalize_quantization_config` for the method,
`utils/torch_utils.py:get_kv_cache_quant_algo_string` and `layers/attention/attention.py` for the KV cache, and
`quantization/modelopt.py` for algorithms and groups.
"""

from collections import Counter
from typing import NamedTuple

from autoadapter.analyze.config import Config
from autoadapter.analyze.reading import Evidence

CONFIG_KEYS = ("quantization_config", "compression_config")
HF_QUANT_CONFIG = "hf_quant_config.json"
MIXED = "MIXED_PRECISION"
MODELOPT_BITS = {
    "FP8": 8, "FP8_PER_CHANNEL_PER_TOKEN": 8, "FP8_PB_WO": 8, "MXFP8": 8, "NVFP4": 4, "W4A16_NVFP4": 4,
    "W4A16_AWQ": 4, "INT4_AWQ": 4, "W4A8_AWQ": 4, "INT8_SQ": 8, "W8A16": 8,
}  # fmt: skip
MODELOPT_SERVED = ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4", "W4A16_NVFP4", "MXFP8", MIXED)
"""vLLM 0.32 `modelopt.py:QUANT_ALGOS`."""
FROM_FILE = ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4")
"""What vLLM takes where hf_quant_config.json is the only source."""
FIXED_BITS = {"fp8": 8, "mxfp4": 4, "gpt_oss_mxfp4": 4, "fbgemm_fp8": 8, "bitnet": 2, "mxfp8": 8}
IGNORED = (
    "ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules", "llm_int8_skip_modules", "exclude",
)  # fmt: skip
GROUP = ("group_size", "q_group_size", "block_size")
KV_WORDS = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}
MOST_PATTERNS = 100_000


class Weights(NamedTuple):
    """The main scheme of the weights."""

    bits: int | None
    group_size: int | None
    block_size: tuple[int, int] | None
    symmetric: bool | None


def config_of_record(evidence: Evidence) -> Config | None:
    """The config that vLLM reads: the wrapper's, the language model's, else ModelOpt's file."""
    for config in (evidence.root, evidence.language):
        for key in CONFIG_KEYS:
            if (inner := config.child(key)) is not None and inner.data:
                return inner
    return modelopt_file(evidence)


def modelopt_file(evidence: Evidence) -> Config | None:
    """hf_quant_config.json, None when absent or empty."""
    document = evidence.json(HF_QUANT_CONFIG)
    return Config(document, HF_QUANT_CONFIG, evidence.repository.label(HF_QUANT_CONFIG)) if document else None


def algorithm(config: Config) -> str:
    """ModelOpt's `quant_algo` in capitals; empty when there is none."""
    return (config.text("quantization.quant_algo", "quant_algo") or "").upper()


def method(config: Config) -> str:
    """VLLM's word for the method; `unknown` when nothing names one."""
    said = (config.text("quant_method") or "").lower().replace("compressed_tensors", "compressed-tensors")
    if said and not said.startswith("modelopt"):
        return said
    name = algorithm(config)
    if not name:
        return said or "unknown"
    if name == MIXED:
        return "modelopt_mixed"
    return "modelopt_mxfp8" if "MXFP8" in name else "modelopt_fp4" if "FP4" in name else "modelopt"


def weights(config: Config, counted: dict[str, int]) -> Weights:
    """Bits, group, block and symmetry of the main scheme.

    Args:
        config: the quantization config.
        counted: `algorithms` of it.
    """
    name = algorithm(config)
    if name:
        named = [bits for each in (counted or {name: 1}) if (bits := MODELOPT_BITS.get(each)) is not None]
        bits = min(named, default=8 if name.startswith("FP8") else None)
        return Weights(bits, _modelopt_group(config), None, None)
    inner = _first_group(config)
    if inner is not None:
        block = _pair(inner, "block_structure")
        group = _size(inner, "group_size") or (block[1] if block else None)
        return Weights(inner.integer("num_bits"), group, block, inner.flag("symmetric"))
    return _plain(config)


def _modelopt_group(config: Config) -> int | None:
    """ModelOpt writes it at the top, in the first group, or layer by layer."""
    stated = _size(config, "quantization.group_size") or _size(config, "group_size")
    if stated:
        return stated
    for weights in (_first_group(config), *_layers(config)):
        if weights is not None and (group := _size(weights, "group_size")):
            return group
    return None


def _first_group(config: Config) -> Config | None:
    groups = (Config(group, config.where, config.file) for group in config.objects("config_groups"))
    return next((inner for group in groups if (inner := group.child("weights")) is not None), None)


def _layers(config: Config) -> tuple[Config, ...]:
    key = config.found("quantization.quantized_layers", "quantized_layers")
    return tuple(Config(row, config.where, config.file) for row in config.objects(key)) if key else ()


def _plain(config: Config) -> Weights:
    bits = config.integer("bits", "w_bit", "num_bits") or FIXED_BITS.get(config.text("quant_method") or "")
    if bits is None and (config.flag("load_in_4bit") or config.flag("load_in_8bit")):
        bits = 4 if config.flag("load_in_4bit") else 8
    block = _pair(config, "weight_block_size")
    symmetric = config.flag("sym", "symmetric")
    if symmetric is None and config.flag("zero_point") is not None:
        symmetric = not config.flag("zero_point")
    return Weights(bits, block[1] if block else _size(config, *GROUP), block, symmetric)


def _size(config: Config, *keys: str) -> int | None:
    """A group size; -1 and 0 mean whole rows."""
    number = config.number(*keys)
    return int(number) if number and number >= 1 else None


def _pair(config: Config, key: str) -> tuple[int, int] | None:
    numbers = config.integers(key)
    return (numbers[0], numbers[1]) if numbers and len(numbers) == 2 and min(numbers) > 0 else None


def ignored(config: Config) -> tuple[str, ...]:
    """Modules that stay as they are."""
    names = config.texts("quantization.exclude_modules", *IGNORED) or ()
    return names[:MOST_PATTERNS]


def algorithms(config: Config) -> dict[str, int]:
    """Mixed precision: how many modules are listed for each algorithm, commonest first; empty for one scheme."""
    names = Counter((row.text("quant_algo") or "unknown").upper() for row in _layers(config))
    return dict(names.most_common()) if len(names) > 1 or algorithm(config) == MIXED else {}


def kv_cache_word(config: Config) -> str | None:
    """How the config spells the cache's type: `FP8`, or a scheme as `8-bit float`; None when it says nothing."""
    keys = ("kv_cache_scheme", "kv_cache_quant_algo")
    found = config.found(*(f"quantization.{key}" for key in keys[:1]), keys[0], f"quantization.{keys[1]}", keys[1])
    value = config.get(found) if found else None
    if isinstance(value, dict):
        scheme = Config(value, config.where, config.file)
        return f"{scheme.integer('num_bits') or '?'}-bit {scheme.text('type') or '?'}"
    return value if isinstance(value, str) else None


def kv_cache_dtype(config: Config, method: str) -> str | None:
    """`--kv-cache-dtype` that vLLM takes from the checkpoint; None where it keeps the model's own.

    Args:
        config: the quantization config.
        method: vLLM's word for it; other methods than ModelOpt's and compressed-tensors' state none.
    """
    word = kv_cache_word(config)
    if word is None or not method.startswith(("modelopt", "compressed-tensors")):
        return None
    common = {"8-bit float": "fp8", "4-bit float": "nvfp4"}.get(word, word.lower())
    return KV_WORDS.get(common)
