"""What the checkpoint says of its own quantization, in vLLM's words."""

import re
from collections import Counter
from typing import NamedTuple

from autoadapter.analyze.config import Config
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import QuantizationTraits

CONFIG_KEYS = ("quantization_config", "compression_config")
HF_QUANT_CONFIG = "hf_quant_config.json"
MODELOPT = {
    "FP8": "modelopt",
    "FP8_PER_CHANNEL_PER_TOKEN": "modelopt",
    "FP8_PB_WO": "modelopt",
    "NVFP4": "modelopt_fp4",
}
"""ModelOpt's algorithm → vLLM's method (vLLM 0.32 `_normalize_quantization_config`); others are `modelopt_mixed`."""
MODELOPT_BITS = {"FP8": 8, "NVFP4": 4, "W4A16_AWQ": 4, "INT4_AWQ": 4, "W4A8_AWQ": 4}
FIXED_BITS = {"fp8": 8, "mxfp4": 4, "fbgemm_fp8": 8, "bitnet": 2}
IGNORED = (
    "ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules", "llm_int8_skip_modules", "exclude",
)  # fmt: skip
PLAIN = {"F64", "F32", "F16", "BF16"}
GROUP = ("group_size", "q_group_size", "block_size")


class _Weights(NamedTuple):
    """The main scheme of the weights."""

    bits: int | None
    group_size: int | None
    symmetric: bool | None


def read_quantization(evidence: Evidence) -> Reading:
    """Quantization traits; None for a checkpoint of plain floats."""
    found = quantization_config(evidence)
    if evidence.checkpoint.format == "gguf":
        return _ggml(evidence)
    if found is None:
        return Reading("quantization", None, {"": evidence.root.source(*CONFIG_KEYS)}, _unexplained(evidence))
    weights = _weights(found)
    traits = QuantizationTraits(
        method=_method(found),
        bits=weights.bits,
        group_size=weights.group_size,
        symmetric=weights.symmetric,
        ignored=_ignored(found),
        source=found.where,
    )
    return Reading("quantization", traits, {"method": found.where}, _findings(evidence, traits))


def _ggml(evidence: Evidence) -> Reading:
    """GGML types, and the bits of the one that holds most weights (`Q4_1` → 4)."""
    where, elements = "GGML tensor types", Counter[str]()
    for info in evidence.checkpoint.tensors.values():
        elements[info.dtype] += info.elements
    kinds = {kind: count for kind, count in elements.items() if kind not in PLAIN}
    if not kinds:
        return Reading("quantization", None, {"": where})
    digit = re.search(r"\d", max(kinds, key=lambda kind: kinds[kind]))
    source = f"{where}: {', '.join(sorted(kinds))}"
    traits = QuantizationTraits(method="gguf", bits=int(digit[0]) if digit else None, source=source)
    return Reading("quantization", traits, {"method": where, "bits": where})


def quantization_config(evidence: Evidence) -> Config | None:
    """The config's own words, the language model's before the wrapper's; else ModelOpt's file."""
    for config in (evidence.root, evidence.language):
        for key in CONFIG_KEYS:
            if (inner := config.child(key)) is not None and inner.data:
                return inner
    document = evidence.json(HF_QUANT_CONFIG)
    return Config(document, HF_QUANT_CONFIG, evidence.repository.label(HF_QUANT_CONFIG)) if document else None


def _method(config: Config) -> str:
    algorithm = config.text("quantization.quant_algo", "quant_algo")
    from_modelopt = config.text("producer.name") == "modelopt" or config.text("quant_method") == "modelopt"
    if algorithm and (from_modelopt or config.text("quant_method") is None):
        return MODELOPT.get(algorithm.upper(), "modelopt_mixed")
    return (config.text("quant_method") or "unknown").lower().replace("compressed_tensors", "compressed-tensors")


def _weights(config: Config) -> _Weights:
    algorithm = (config.text("quantization.quant_algo", "quant_algo") or "").upper()
    if algorithm:
        group = config.integer("quantization.group_size", "group_size")
        return _Weights(MODELOPT_BITS.get(algorithm) or (8 if algorithm.startswith("FP8") else None), group, None)
    groups = config.objects("config_groups")
    inner = Config(groups[0], config.where, config.file).child("weights") if groups else None
    if inner is not None:
        return _Weights(inner.integer("num_bits"), inner.integer("group_size"), inner.flag("symmetric"))
    return _plain(config)


def _plain(config: Config) -> _Weights:
    bits = config.integer("bits", "w_bit", "num_bits") or FIXED_BITS.get(config.text("quant_method") or "")
    if bits is None and (config.flag("load_in_4bit") or config.flag("load_in_8bit")):
        bits = 4 if config.flag("load_in_4bit") else 8
    block = config.integers("weight_block_size")
    group = config.number(*GROUP)
    symmetric = config.flag("sym", "symmetric")
    if symmetric is None and config.flag("zero_point") is not None:
        symmetric = not config.flag("zero_point")
    return _Weights(bits, block[0] if block else int(group) if group and group > 0 else None, symmetric)


def _ignored(config: Config) -> tuple[str, ...]:
    return config.texts("quantization.exclude_modules", *IGNORED) or ()


def _unexplained(evidence: Evidence) -> tuple[Finding, ...]:
    """Packed weights without a config: vLLM would read them as plain numbers."""
    packed = evidence.checkpoint.find(r"\.(qweight|weight_packed|weight_scale|weight_scale_inv|SCB)$")
    if packed is None:
        return ()
    message = f"{packed.name} belongs to a quantized checkpoint, and no quantization config says how to read it."
    hint = "Take config.json (and hf_quant_config.json) from where the weights came from."
    source = f"tensor {packed.name}"
    return (Finding(code="quantization.unexplained", level=Level.BLOCKER, message=message, hint=hint, source=source),)


def _findings(evidence: Evidence, traits: QuantizationTraits) -> tuple[Finding, ...]:
    if not evidence.checkpoint.tensors:
        return ()
    scales = evidence.checkpoint.find(r"(scales?|scale_inv|_scales|absmax|qzeros|weight_scale_2|SCB)$")
    notes = []
    if scales is None:
        message = (
            f"The config says {traits.method}, and the checkpoint stores no scales: the weights are not quantized."
        )
        notes.append(Finding(code="quantization.not-there", level=Level.BLOCKER, message=message, source=traits.source))
    head = evidence.checkpoint.find(r"lm_head\.(weight_scale|weight_packed|qweight|input_scale)")
    if head is not None and any(name.removesuffix("*").startswith("lm_head") for name in traits.ignored):
        message = f"lm_head is excluded from quantization, and {head.name} is stored: loading will stop there."
        source = f"tensor {head.name}"
        notes.append(Finding(code="quantization.head-conflict", level=Level.WARNING, message=message, source=source))
    return tuple(notes)
