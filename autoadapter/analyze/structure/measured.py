"""Weights from the tensor headers: the truth, layer by layer."""

from collections import defaultdict
from dataclasses import dataclass, field

from autoadapter.analyze.headers.checkpoint import Checkpoint, is_head
from autoadapter.analyze.structure.names import Belonging, belonging
from autoadapter.analyze.structure.served import served_bytes
from autoadapter.artifacts import Operator, WeightShares


@dataclass
class MeasuredLayer:
    """Bytes of one layer as served."""

    shares: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By split; `fused` is Q beside K and V."""
    operators: dict[tuple[str, ...], int] = field(default_factory=lambda: defaultdict(int))
    """By the matrices that a tensor holds."""

    def weights(self, kv_part: float) -> WeightShares:
        """Shares by split.

        Args:
            kv_part: part of a fused Q, K and V that is K and V; 0 where no heads are cached, so that all is split.
        """
        fused, own = self.shares.get("fused", 0), self.shares.get("kv", 0)
        kv = int(fused * kv_part) + own if kv_part else 0
        return WeightShares(
            split=self.shares.get("split", 0) + fused + own - kv,
            kv=kv,
            replicated=self.shares.get("replicated", 0),
            experts=self.shares.get("experts", 0),
        )


@dataclass
class Measured:
    """Bytes of a checkpoint as served, by where they belong."""

    layers: dict[int, MeasuredLayer] = field(default_factory=lambda: defaultdict(MeasuredLayer))
    places: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Bytes outside the layers, by `Place`."""


@dataclass(frozen=True)
class Serving:
    """What decides how many bytes a stored tensor takes when served."""

    quantized: bool
    tied: bool
    layers: int
    """Decoder layers that the config counts; what is numbered beyond them predicts ahead."""


def measure(checkpoint: Checkpoint, serving: Serving) -> Measured:
    """Add up a checkpoint. The sum of all parts is `MemoryFacts.served_weight_bytes`."""
    found = Measured()
    converted = checkpoint.format == "gguf"
    sizes: dict[tuple[str, str, tuple[int, ...]], int] = {
        (kind, info.dtype, info.shape): served_bytes(info, converted=converted, quantized=serving.quantized)
        for kind, info, _ in checkpoint.alike
    }
    for kind, members in checkpoint.all_kinds.items():
        if serving.tied and is_head(kind):
            continue
        where = belonging(kind)
        if where.place != "layer":
            found.places[where.place] += sum(sizes[kind, info.dtype, info.shape] for info in members)
            continue
        of_layers: dict[str, int] = defaultdict(int)
        for name, dtype, shape, _, _ in members:
            of_layers[name[where.start : name.index(".", where.start)]] += sizes[kind, dtype, shape]
        for number, size in of_layers.items():
            _add(found, where, int(number), size, serving.layers)
    return found


def _add(found: Measured, where: Belonging, number: int, size: int, layers: int) -> None:
    if number >= layers:
        found.places["predictor" if layers else "other"] += size
        return
    layer = found.layers[number]
    layer.shares[where.split] += size
    if where.operators:
        layer.operators[where.operators] += size


def with_stored_bytes(operators: tuple[Operator, ...], layer: MeasuredLayer) -> tuple[Operator, ...]:
    """Operators with the bytes that the headers have for them; a fused matrix is shared by size."""
    named = {operator.name: operator for operator in operators}
    stored: dict[str, int] = defaultdict(int)
    for names, size in layer.operators.items():
        known = [named[name] for name in names if name in named]
        total = sum(operator.inputs * operator.outputs for operator in known)
        for operator in known:
            stored[operator.name] += size * operator.inputs * operator.outputs // total if total else 0
    return tuple(
        operator.model_copy(update={"weight_bytes": stored[operator.name]}) if operator.name in stored else operator
        for operator in operators
    )
