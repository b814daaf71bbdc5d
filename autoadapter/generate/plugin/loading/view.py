"""What `load_weights` of a rendered model says."""

from dataclasses import dataclass
from typing import Self

from autoadapter.artifacts.decoder import Attention, DecoderSpec, LatentAttention, Mlp, Moe
from autoadapter.generate.plugin.loading.mapper import Mapper
from autoadapter.generate.plugin.loading.pairs import EXPERT, Pair, is_whole, places_of
from autoadapter.generate.plugin.loading.renames import find_mapper
from autoadapter.generate.plugin.loading.reshapes import Reshape, cut, merged, needs_cut
from autoadapter.generate.plugin.names import Place, mixer_name
from autoadapter.rendering.literals import py_literal

UTILS = "vllm.model_executor.models.utils"
INDENT = 8
LINE = 120
PROJECTIONS = ("gate_proj", "down_proj", "up_proj")


@dataclass(frozen=True)
class LoadingView:
    """Names and layouts: from the checkpoint's to vLLM's."""

    mapper: Mapper
    reshapes: tuple[Reshape, ...]
    packed: tuple[tuple[str, tuple[str, ...]], ...]
    """Fused modules and what they hold, for quantization and LoRA."""
    expert_names: tuple[str, str, str | None]
    """What checkpoints call the experts' gate, down and up projections."""
    uses_config: bool
    absent: tuple[tuple[str, str | int], ...] = ()
    """Parts of fused biases that no tensor fills: end of the parameter's name, and the part."""

    @classmethod
    def of(cls, spec: DecoderSpec) -> Self:
        """The view of a spec.

        Raises:
            UnsupportedModelError: a checkpoint's layout that cannot be rendered.
        """
        pairs: list[Pair] = []
        reshapes: list[Reshape] = []
        ignored = list(spec.ignored)
        for source in spec.weights:
            places = places_of(spec, source)
            if spec.head.tied and source.optional:
                ignored.append(source.checkpoint)
            elif needs_cut(source, places):
                found = cut(spec, source, places)
                pairs.extend(found.pairs)
                reshapes.append(found.reshape)
            else:
                pairs.append(Pair(source.checkpoint, places[0], whole=is_whole(places)))
        names = _expert_names(spec, pairs)
        pairs = [_with_own_names(pair) for pair in pairs]
        joined = merged(reshapes)
        return cls(
            mapper=find_mapper(pairs, ignored),
            reshapes=joined,
            packed=_packed(spec),
            expert_names=names,
            uses_config=any("config." in line for reshape in joined for line in reshape.lines),
            absent=absent_parts(spec),
        )

    @property
    def statement(self) -> tuple[str, ...]:
        """What loads, over several lines where it is long."""
        weights = "self.reshaped(weights)" if self.reshapes else "weights"
        if not self.absent:
            return (f"return load_all(self, {weights})",)
        parts = [f"({py_literal(end)}, {py_literal(part)})" for end, part in self.absent]
        line = f"return load_all(self, {weights}, absent={{{', '.join(parts)}}})"
        if INDENT + len(line) <= LINE:
            return (line,)
        inner = f"self, {weights}, absent={{{', '.join(parts)}}}"
        if INDENT + 4 + len(inner) <= LINE:
            return ("return load_all(", f"    {inner}", ")")
        rows = (f"        {part}," for part in parts)
        return ("return load_all(", "    self,", f"    {weights},", "    absent={", *rows, "    },", ")")

    @property
    def has_yields(self) -> bool:
        """Whether a tensor becomes several."""
        return any(reshape.yields for reshape in self.reshapes)

    @property
    def imports(self) -> frozenset[tuple[str, str]]:
        """Names that the model file needs for it."""
        found = {("collections.abc", "Iterable"), (UTILS, "WeightsMapper"), (".loading", "load_all")}
        return frozenset(found | ({("re", "")} if self.mapper.regex else set()))


def _with_own_names(pair: Pair) -> Pair:
    """Experts keep the checkpoint's words for their projections: vLLM is told those words."""
    if EXPERT not in pair.old:
        return pair
    *parents, _, end = pair.place.name.split(".")
    return Pair(pair.old, Place(".".join((*parents, pair.old.split(".")[-2], end))))


def _expert_names(spec: DecoderSpec, pairs: list[Pair]) -> tuple[str, str, str | None]:
    words = {pair.place.name.split(".")[-2]: pair.old.split(".")[-2] for pair in pairs if EXPERT in pair.old}
    gate, down, up = (words.get(projection) for projection in PROJECTIONS)
    if not words:
        return PROJECTIONS
    gated = any(
        isinstance(branch.mixer, Moe) and branch.mixer.expert.gated for kind in spec.kinds for branch in kind.branches
    )
    return (gate or "", down or "", up) if gated else (up or "", down or "", None)


def absent_parts(spec: DecoderSpec) -> tuple[tuple[str, str | int], ...]:
    """Parts of fused biases that the checkpoint has no tensor for: some projections have a bias, others none."""
    found: set[tuple[str, str | int]] = set()
    for kind in spec.kinds:
        for index, branch in enumerate(kind.branches):
            mixer, path = branch.mixer, f".{mixer_name(kind, index)}"
            if isinstance(mixer, Attention):
                biases: dict[str | int, bool] = {"q": mixer.q_bias, "k": mixer.k_bias, "v": mixer.v_bias}
                end = f"{path}.qkv_proj.bias"
            elif isinstance(mixer, LatentAttention) and mixer.q_lora_rank is not None:
                biases = {0: mixer.q_a_bias, 1: mixer.kv_a_bias}
                end = f"{path}.fused_qkv_a_proj.bias"
            else:
                continue
            if any(biases.values()):
                found |= {(end, part) for part, has_bias in biases.items() if not has_bias}
    return tuple(sorted(found, key=str))


def _packed(spec: DecoderSpec) -> tuple[tuple[str, tuple[str, ...]], ...]:
    mixers = [branch.mixer for kind in spec.kinds for branch in kind.branches]
    found: dict[str, tuple[str, ...]] = {}
    if any(mixer.mixer == "attention" for mixer in mixers):
        found["qkv_proj"] = ("q_proj", "k_proj", "v_proj")
    shared = [mixer.shared.mlp for mixer in mixers if isinstance(mixer, Moe) and mixer.shared]
    if any(mlp.gated for mlp in [*shared, *(mixer for mixer in mixers if isinstance(mixer, Mlp))]):
        found["gate_up_proj"] = ("gate_proj", "up_proj")
    if any(mixer.mixer == "latent_attention" and mixer.q_lora_rank is not None for mixer in mixers):
        found["fused_qkv_a_proj"] = ("q_a_proj", "kv_a_proj_with_mqa")
    return tuple(found.items())
