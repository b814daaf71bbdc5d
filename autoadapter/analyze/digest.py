"""What a resumed run compares: has anything changed that `analyze` would see."""

import hashlib
from collections.abc import Iterator

from autoadapter.analyze.headers.gguf import read_gguf
from autoadapter.analyze.headers.pytorch import pytorch_header
from autoadapter.analyze.headers.safetensors import safetensors_header_bytes
from autoadapter.analyze.headers.shards import WeightFormat, choose_weights
from autoadapter.analyze.side_files import side_file_names
from autoadapter.analyze.sources import ByteSource, Repository, open_repository
from autoadapter.artifacts import ModelKind, ModelRef

INDEX = ".index.json"


def input_digest(ref: ModelRef) -> str:
    """64 hex digits over everything that `analyze` reads.

    Small files count by content; weights by name, size, header and, on this machine, the time of their last change.
    On the Hub the listing's own digests stand for contents. Weights themselves are never read.

    Raises:
        ModelNotFoundError: the model is gone.
        BrokenCheckpointError: a weight file is truncated or foreign, or an index names one that is missing.
        UserError: the Hub refuses or cannot be reached.
    """
    repository = open_repository(ref)
    total = hashlib.sha256()
    for part in _parts(repository, ref.kind is ModelKind.HUB):
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()


def _parts(repository: Repository, listed: bool) -> Iterator[bytes]:
    """Every file by name and size; on this machine small files and headers by content."""
    small, weights = set(side_file_names(repository)), choose_weights(repository)
    for name, stat in repository.files().items():
        changed = stat.modified_ns if name in weights.files else None
        yield f"{name} {stat.bytes} {stat.digest} {changed}".encode()
        if listed:
            continue
        if name in weights.files:
            yield _header(repository.open(name), weights.format)
        elif name in small or name.endswith((INDEX, ".py")):
            yield repository.read(name)


def _header(source: ByteSource, kind: WeightFormat) -> bytes:
    """The bytes that describe the tensors."""
    if kind == "pytorch":
        return pytorch_header(source)
    if kind == "gguf":
        return source.read(0, read_gguf(source, source.label).bytes)
    return source.read(0, safetensors_header_bytes(source))
