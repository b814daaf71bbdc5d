"""All tensor headers of a model, and what they add up to."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property

from autoadapter.analyze.headers.ggml import ggml_error, is_ggml
from autoadapter.analyze.headers.gguf import GgufValue, read_gguf
from autoadapter.analyze.headers.pytorch import read_pytorch
from autoadapter.analyze.headers.safetensors import read_safetensors
from autoadapter.analyze.headers.shards import (
    WeightChoice,
    WeightFormat,
    choose_weights,
    missing_shards,
    stale_index,
)
from autoadapter.analyze.headers.tensor import TensorInfo
from autoadapter.analyze.sources import FileStat, Repository
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import TensorCensus, WeightFile
from autoadapter.errors import BrokenCheckpointError
from autoadapter.progress import Progress, silent

PARALLEL_READS = 8
CAUSAL_MASK_DIMENSIONS = 4
"""GPT-2 and GPT-NeoX store their mask as `attn.bias` of shape [1, 1, n, n]."""
NOT_PARAMETERS = re.compile(
    r"(^|[._])(scales?|scales_and_zeros|scale_inv|qzeros|zeros?|zero_point|g_idx|weight_shape|input_amax|absmax"
    r"|quant_map|inv_freq|position_ids|masked_bias|rope_freqs\.weight)$"
    r"|(weight|input|output|k|v|q|kv)_(scale|scale_inv|scale_2|zero_point|global_scale|packed_scale)s?$"
    r"|_scales$|quant_state\."
)
"""Scales, zero points, packing tables and stored buffers: tensors that no paper counts as parameters."""
OTHER_TOWERS = re.compile(
    r"(^|\.)(vision|visual|vit|image|img|audio|speech|video|talker|token2wav|code2wav|mm_|multi_modal)\w*\."
)
NUMBER = re.compile(r"\.\d+(?=\.|$)")
"""A whole part of a name, its dot before it: `.7` of `layers.7.`, and not the 1 of `fc1`."""
PACKED_32 = re.compile(r"\.(qweight|weight_packed)$")
PACKED_NIBBLES = re.compile(r"(_blocks|\.weight|weight_packed|_proj)$")


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a model by name."""

    format: WeightFormat
    tensors: Mapping[str, TensorInfo]
    files: tuple[WeightFile, ...]
    metadata: Mapping[str, GgufValue] = field(default_factory=dict)
    """GGUF metadata; empty for the other formats."""
    findings: tuple[Finding, ...] = ()

    @cached_property
    def kinds(self) -> Mapping[str, list[TensorInfo]]:
        """Tensors of the language model by name with every index made 0: 100,000 are a few dozen kinds.

        Other modalities' towers are left out: they have norms and biases of their own.
        """
        return {kind: members for kind, members in self.all_kinds.items() if not OTHER_TOWERS.search(kind)}

    @cached_property
    def towers(self) -> tuple[str, ...]:
        """Names of the other modalities' tensors."""
        kinds = (members for kind, members in self.all_kinds.items() if OTHER_TOWERS.search(kind))
        return tuple(info.name for members in kinds for info in members)

    @cached_property
    def language(self) -> tuple[str, ...]:
        """Names of the language model's tensors, in the files' order."""
        others = set(self.towers)
        return tuple(name for name in self.tensors if name not in others) if others else tuple(self.tensors)

    @cached_property
    def all_kinds(self) -> Mapping[str, list[TensorInfo]]:
        """Tensors by kind, towers too."""
        kinds: dict[str, list[TensorInfo]] = {}
        for name, info in self.tensors.items():
            kinds.setdefault(kind_of(name), []).append(info)
        return kinds

    @cached_property
    def alike(self) -> tuple[tuple[str, TensorInfo, int], ...]:
        """Kind, one tensor, and how many there are of that kind, dtype and shape; towers too."""
        return tuple(row for kind, members in self.all_kinds.items() for row in _counted(kind, members))

    def has(self, pattern: str) -> bool:
        """Whether any tensor of the language model matches, its indices read as 0."""
        return any(map(re.compile(pattern).search, self.kinds))

    def find(self, pattern: str) -> TensorInfo | None:
        """The first tensor of the language model whose name matches; indices in `pattern` other than 0 match none."""
        matcher = re.compile(pattern)
        likely = (members for kind, members in self.kinds.items() if matcher.search(kind))
        return next((info for members in likely for info in members if matcher.search(info.name)), None)


def _counted(kind: str, members: list[TensorInfo]) -> Iterator[tuple[str, TensorInfo, int]]:
    counts = Counter((info.dtype, info.shape) for info in members)
    if len(counts) == 1:
        yield kind, members[0], len(members)
        return
    first = {(info.dtype, info.shape): info for info in reversed(members)}
    yield from ((kind, first[key], count) for key, count in counts.items())


@dataclass(frozen=True)
class _Shard:
    tensors: tuple[TensorInfo, ...]
    metadata: Mapping[str, GgufValue]


def read_checkpoint(repository: Repository, progress: Progress = silent) -> Checkpoint:
    """Read the header of every weight file.

    Raises:
        BrokenCheckpointError: a file is truncated or foreign, or an index disagrees with the files.
        UnsupportedModelError: the weights are GGML files.
        UserError: the repository holds several GGUF models.
    """
    choice = choose_weights(repository)
    shards = _read_all(repository, choice, progress)
    tensors, doubles = _merge(shards)
    _check_promises(repository, choice)
    stats, stale = repository.files(), (stale_index(choice),) if choice.absent else ()
    return Checkpoint(
        choice.format,
        tensors,
        tuple(_weight_file(name, stats[name]) for name in choice.files),
        shards[0].metadata if shards else {},
        (*choice.findings, *stale, *doubles, *_empty(choice, tensors)),
    )


def _read_all(repository: Repository, choice: WeightChoice, progress: Progress) -> list[_Shard]:
    """All files; over the network a few at a time. The first fault or Ctrl-C drops what was not begun."""
    if not repository.remote:
        return _told((_read(repository, choice, name) for name in choice.files), choice, progress)
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        try:
            shards = pool.map(lambda name: _read(repository, choice, name), choice.files)
            return _told(shards, choice, progress)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _told(shards: Iterable[_Shard], choice: WeightChoice, progress: Progress) -> list[_Shard]:
    """All shards; what each of them holds is no longer a promise, so that no name is held twice."""
    read: list[_Shard] = []
    total = len(choice.files)
    for shard in shards:
        read.append(shard)
        for info in shard.tensors if choice.promised else ():
            choice.promised.pop(info.name, None)
        progress(f"Tensor headers: {len(read)} of {total} files", len(read) / total)
    return read


def _read(repository: Repository, choice: WeightChoice, name: str) -> _Shard:
    source = repository.open(name)
    if choice.format == "gguf":
        header = read_gguf(source, name)
        return _Shard(header.tensors, header.metadata)
    if choice.format == "pytorch" and is_ggml(source):
        raise ggml_error(source.label)
    read = read_safetensors if choice.format == "safetensors" else read_pytorch
    return _Shard(read(source, name), {})


def _merge(shards: list[_Shard]) -> tuple[dict[str, TensorInfo], list[Finding]]:
    merged: dict[str, TensorInfo] = {}
    doubles: list[TensorInfo] = []
    for info in (info for shard in shards for info in shard.tensors):
        doubles += [info] if info.name in merged else []
        merged.setdefault(info.name, info)
    if not doubles:
        return merged, []
    name, other = doubles[0].name, doubles[0].file
    message = f"{len(doubles)} tensors are stored twice: {name} is in {merged[name].file} and in {other}."
    return merged, [Finding(code="weights.twice", level=Level.WARNING, message=message, source=f"tensor {name}")]


def _empty(choice: WeightChoice, tensors: Mapping[str, TensorInfo]) -> tuple[Finding, ...]:
    if not choice.files or tensors:
        return ()
    message = f"{choice.files[0]} holds no tensors: there is a header and nothing after it."
    hint = "Download the weights again."
    return (Finding(code="weights.empty", level=Level.BLOCKER, message=message, hint=hint, source=choice.files[0]),)


def _check_promises(repository: Repository, choice: WeightChoice) -> None:
    ghost = next(iter(choice.promised), None)
    if ghost is None:
        return
    if choice.absent:
        raise missing_shards(repository, str(choice.index), choice.absent)
    problem = f"promises the tensor {ghost} in {choice.promised[ghost]}, and it is not there"
    raise BrokenCheckpointError(repository.label(str(choice.index)), problem)


def _weight_file(name: str, stat: FileStat) -> WeightFile:
    return WeightFile(name=name, bytes=stat.bytes, digest=stat.digest)


def take_census(checkpoint: Checkpoint, *, quantized_bits: int | None, tied: bool) -> TensorCensus:
    """Count a checkpoint.

    Args:
        checkpoint: its headers.
        quantized_bits: bits of a packed weight, from the quantization config.
        tied: the head shares the embedding; a stored copy of it does not count as parameters.
    """
    by_dtype: Counter[str] = Counter()
    parameters = 0
    for kind, info, count in checkpoint.alike:
        by_dtype[info.dtype] += info.elements * count
        if not (tied and is_head(kind)):
            parameters += parameters_of(info, quantized_bits) * count
    return TensorCensus(
        format=checkpoint.format,
        files=checkpoint.files,
        tensors=len(checkpoint.tensors),
        parameters=parameters,
        bytes=sum(info.bytes * count for _, info, count in checkpoint.alike),
        parameters_by_dtype=dict(by_dtype),
    )


def parameters_of(info: TensorInfo, quantized_bits: int | None) -> int:
    """Weights that a tensor holds: unpacked where it packs several into one element, 0 for scales and buffers."""
    mask = info.name.endswith((".attn.bias", ".attention.bias")) and len(info.shape) == CAUSAL_MASK_DIMENSIONS
    if mask or _is_buffer(".".join(info.name.rsplit(".", 2)[-2:])):
        return 0
    if info.dtype == "I32" and PACKED_32.search(info.name):
        return info.elements * 32 // (quantized_bits or 4)
    if info.dtype == "U8" and quantized_bits == 4 and PACKED_NIBBLES.search(info.name):
        return info.elements * 2
    return info.elements


@cache
def _is_buffer(end: str) -> bool:
    """By the last two parts of a name: a hundred thousand expert tensors have a handful of endings."""
    return NOT_PARAMETERS.search(end) is not None


def kind_of(name: str) -> str:
    """A tensor's name with every whole part that is a number made 0."""
    return NUMBER.sub(".0", name)


def is_head(name: str) -> bool:
    """Whether a tensor is the output head's weight."""
    return name == "output.weight" or name.endswith(("lm_head.weight", "embed_out.weight"))
