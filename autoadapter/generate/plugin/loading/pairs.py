"""What every tensor of a checkpoint is to become, one row a name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoadapter.artifacts.decoder import DecoderSpec, WeightSource
from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin.names import Place, place

LAYER = "{layer}"
EXPERT = "{expert}"
SAMPLES = ("0", "11")
"""Layer and expert numbers that rules are tried on."""


@dataclass(frozen=True)
class Pair:
    """A checkpoint tensor and the place that it is loaded to as it is."""

    old: str
    place: Place
    whole: bool = False
    """It holds all parts of `place.fused`, in their order."""

    @property
    def new(self) -> str:
        """The name that renaming has to give, before parts are stacked."""
        return self.place.fused if self.whole and self.place.fused else self.place.name

    @property
    def final(self) -> tuple[str, str | int | None]:
        """Parameter and shard that the mapper has to give."""
        if self.whole or self.place.fused is None:
            return self.new, None
        return self.place.fused, self.place.shard

    def samples(self) -> Iterator[tuple[str, tuple[str, str | int | None]]]:
        """Names with numbers in place of `{layer}` and `{expert}`, and what each has to become."""
        name, shard = self.final
        for number in SAMPLES:
            yield _numbered(self.old, number), (_numbered(name, number), shard)


def _numbered(name: str, number: str) -> str:
    return name.replace(LAYER, number).replace(EXPERT, number)


def kinds_of(spec: DecoderSpec, source: WeightSource) -> tuple[int, ...]:
    """The kinds whose layers have the source's tensor."""
    return source.kinds or tuple(range(len(spec.kinds)))


def places_of(spec: DecoderSpec, source: WeightSource) -> tuple[Place, ...]:
    """Where the source's targets live.

    Raises:
        UnsupportedModelError: layers of two kinds keep one tensor at different places.
    """
    kinds = kinds_of(spec, source) if source.targets[0].startswith("layers.") else (0,)
    found = {tuple(place(spec, target, kind) for target in source.targets) for kind in kinds}
    if len(found) > 1:
        raise UnsupportedModelError(f"{source.checkpoint} is loaded to different places in layers of different kinds")
    return found.pop()


def is_whole(places: Sequence[Place]) -> bool:
    """Whether the places are all parts of one fused parameter, in its order."""
    shards = [found.shard for found in places]
    one = len({found.fused for found in places}) == 1 and places[0].fused is not None
    return one and (shards == ["q", "k", "v"] or shards == list(range(2)))
