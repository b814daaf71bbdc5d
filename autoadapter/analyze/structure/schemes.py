"""How a checkpoint stores a matrix, from its quantization config alone: bits, scales, zero points, what is left out.

Layouts: compressed-tensors 0.15 `QuantizationArgs` and its packed formats, ModelOpt 0.4x `hf_quant_config.json`, vLLM
0.32 `model_executor/layers/quantization/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue

from autoadapter.analyze.config import Config
from autoadapter.analyze.quantization.stated import ignored as ignored_modules
from autoadapter.analyze.structure.modules import Modules
from autoadapter.analyze.structure.parts import Matrix


class Scheme(NamedTuple):
    """How one matrix is stored."""

    word: str
    """As `Operator.dtype` has it."""
    bits: int = 16
    block: tuple[int, int] | None = None
    """Outputs and inputs that share a scale; None: one scale for a whole output row, or for all."""
    scale_bytes: float = 0
    per_row: bool = False
    """One scale a row, where there is no block; else one for all."""
    zeros: bool = False
    """Zero points of `bits` beside the scales."""
    extra: int = 0
    """Bytes beside them: global and input scales."""
    index_bytes: int = 0
    """Bytes for each input: GPTQ's group index."""

    def stored(self, inputs: int, outputs: int) -> int:
        """Bytes of one matrix."""
        payload = -(-inputs * outputs * self.bits // 8)
        if self.block:
            high, wide = self.block
            count = -(-outputs // high) * -(-inputs // wide)
        else:
            count = outputs if self.per_row else 1
        zeros = count * self.bits / 8 if self.zeros else 0
        return payload + round(count * self.scale_bytes + zeros) + self.extra + self.index_bytes * inputs


def fp8_blocks(high: int, wide: int) -> Scheme:
    """fp8 with a 32-bit scale a block."""
    return Scheme("fp8", 8, (max(1, high), max(1, wide)), 4)


PLAIN = Scheme("bfloat16")
FP8 = Scheme("fp8", 8, scale_bytes=4, extra=4)
FP8_ROWS = Scheme("fp8", 8, scale_bytes=4, per_row=True)
INT8_ROWS = Scheme("int8", 8, scale_bytes=4, per_row=True)
NVFP4 = Scheme("nvfp4", 4, (1, 16), 1, extra=8)
MXFP4 = Scheme("mxfp4", 4, (1, 32), 1)
MXFP8 = Scheme("mxfp8", 8, (1, 32), 1)
BNB4 = Scheme("nf4", 4, (1, 64), 1)
MODELOPT = {
    "FP8": FP8, "FP8_PER_CHANNEL_PER_TOKEN": FP8_ROWS, "FP8_PB_WO": fp8_blocks(128, 128), "MXFP8": MXFP8,
    "NVFP4": NVFP4, "W4A16_NVFP4": NVFP4, "NVFP4_AWQ": NVFP4, "W4A8_NVFP4_FP8": NVFP4, "MXFP4": MXFP4,
    "W4A8_MXFP4_FP8": MXFP4, "INT8_SQ": INT8_ROWS, "W8A8_SQ_PER_CHANNEL": INT8_ROWS,
}  # fmt: skip
"""ModelOpt's algorithm → layout; the AWQ ones depend on the group."""


def integers(bits: int, group: int | None, *, zeros: bool, index: bool = False) -> Scheme:
    """Packed integers with a 16-bit scale a group."""
    block = (1, group) if group and group > 0 else None
    return Scheme(f"int{bits}", bits, block, 2, per_row=block is None, zeros=zeros, index_bytes=4 if index else 0)


@dataclass(frozen=True)
class Quantization:
    """Which scheme each module has."""

    base: Scheme | None
    """Of every matrix that nothing else speaks of; None leaves them plain."""
    ignored: Modules
    named: tuple[tuple[Modules, Scheme], ...] = ()
    """What single modules have, the first match counting."""
    only_experts: bool = False
    experts: Scheme | None = None
    """Of routed experts, where it is another than `base`."""
    plain: Scheme = PLAIN

    def scheme(self, module: str, matrix: Matrix | None = None) -> Scheme:
        """How a module is stored.

        Args:
            module: its path with the layer: `layers.3.self_attn.q_proj`.
            matrix: what is known of it; the ends have none, and are plain unless they are named.
        """
        for names, scheme in self.named:
            if names.match(module):
                return scheme
        routed = matrix is not None and matrix.split == "experts"
        base = self.experts if routed and self.experts else self.base
        if matrix is None or base is None or not matrix.quantizable or (self.only_experts and not routed):
            return self.plain
        return self.plain if self.ignored.match(module) else base


def read_schemes(config: Config | None, language: Config, served_dtype: str) -> Quantization:
    """Schemes of a model.

    Args:
        config: its quantization config; None for plain floats.
        language: the language model's config.
        served_dtype: of what is not quantized.
    """
    plain = Scheme(served_dtype)
    if config is None:
        return Quantization(None, Modules(()), plain=plain)
    named = _named(config)
    method = (config.text("quant_method") or "").lower()
    over_fp8 = bool(named) and method == "fp8"  # ModelOpt on top of an fp8 checkpoint: what it left alone stays fp8
    ignored = Modules(() if over_fp8 else ignored_modules(config))
    formats = [config.text("format") or "", *(str(group.get("format")) for group in config.objects("config_groups"))]
    return Quantization(
        base=_base(config, method, named=bool(named)),
        ignored=ignored,
        named=named,
        only_experts=method == "mxfp4" or any("mxfp4-pack" in word for word in formats),
        experts=MXFP4 if language.text("expert_dtype") == "fp4" and not named else None,
        plain=plain,
    )


def _base(config: Config, method: str, *, named: bool) -> Scheme | None:
    algorithm = (config.text("quantization.quant_algo", "quant_algo") or "").upper()
    group = _size(config, "quantization.group_size", "group_size")
    if algorithm and algorithm != "MIXED_PRECISION":
        return _modelopt(algorithm, group)
    if config.objects("config_groups") and not named:
        return _from_arguments(config.objects("config_groups")[0], config)
    if method == "fp8":
        blocks = config.integers("weight_block_size")
        return fp8_blocks(blocks[0], blocks[1]) if blocks and len(blocks) > 1 else FP8
    return None if named else _by_method(config, method, group)


def _modelopt(algorithm: str, group: int | None) -> Scheme | None:
    if "AWQ" in algorithm and algorithm not in MODELOPT:
        return integers(4, group or 128, zeros=False)
    return MODELOPT.get(algorithm) or (FP8 if algorithm.startswith("FP8") else None)


def _by_method(config: Config, method: str, group: int | None) -> Scheme | None:
    bits = config.integer("bits", "w_bit", "num_bits") or 4
    if method in ("gptq", "gptq_marlin", "auto-round", "auto_round", "intel/auto-round"):
        return integers(bits, group, zeros=True, index=method.startswith("gptq"))
    if method in ("awq", "awq_marlin", "hqq"):
        return integers(bits, _size(config, "q_group_size", "group_size") or 128, zeros=True)
    if method in ("bitsandbytes", "bnb"):
        return INT8_ROWS if config.flag("load_in_8bit") else BNB4
    return {"mxfp4": MXFP4, "fbgemm_fp8": FP8_ROWS, "ptpc_fp8": FP8_ROWS}.get(method)


def _from_arguments(group: Mapping[str, JsonValue], config: Config) -> Scheme | None:
    """compressed-tensors' arguments of the weights."""
    arguments = group.get("weights")
    if not isinstance(arguments, dict):
        return None
    weights = Config(arguments, config.where, config.file)
    bits, size = weights.integer("num_bits") or 16, _size(weights, "group_size")
    floats = weights.text("type") == "float"
    if floats and bits == NVFP4.bits:
        return MXFP4 if MXFP4.block == (1, size) else NVFP4
    block = weights.integers("block_structure")
    if floats and block and len(block) > 1:
        return fp8_blocks(block[0], block[1])
    if bits == FP8.bits and size is None:
        rows = weights.text("strategy") != "tensor"
        word = "fp8" if floats else "int8"
        return Scheme(word, 8, scale_bytes=4, per_row=rows and weights.text("strategy") is not None)
    return integers(bits, size, zeros=weights.flag("symmetric") is False)


def _size(config: Config, *keys: str) -> int | None:
    """A group's inputs; -1 and 0 mean whole rows."""
    size = config.number(*keys)
    return int(size) if size and size >= 1 else None


def _named(config: Config) -> tuple[tuple[Modules, Scheme], ...]:
    """Modules that are named one by one, grouped by what they have."""
    layers = config.child("quantized_layers") or config.child("quantization.quantized_layers")
    if layers is not None:
        return _quantized_layers(layers)
    found = []
    for group in config.objects("config_groups"):
        targets = group.get("targets")
        names = tuple(name for name in targets if isinstance(name, str)) if isinstance(targets, list) else ()
        scheme = _from_arguments(group, config)
        if scheme is not None and names and not {"Linear", "LinearBase"} & set(names):
            found.append((Modules(names), scheme))
    return tuple(found)


def _quantized_layers(layers: Config) -> tuple[tuple[Modules, Scheme], ...]:
    by_scheme: dict[Scheme, list[str]] = {}
    for name, row in layers.data.items():
        inner = Config(row if isinstance(row, dict) else {}, layers.where, layers.file)
        scheme = _modelopt((inner.text("quant_algo") or "").upper(), _size(inner, "group_size"))
        if scheme is not None:
            by_scheme.setdefault(scheme, []).append(name)
    return tuple((Modules(tuple(names)), scheme) for scheme, names in by_scheme.items())
