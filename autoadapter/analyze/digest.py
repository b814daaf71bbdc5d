"""What a resumed run compares: has anything changed that `analyze` would see."""

import hashlib
from collections.abc import Iterator

from autoadapter.analyze.headers.safetensors import safetensors_header_bytes
from autoadapter.analyze.headers.shards import NOT_WEIGHTS, WEIGHTS
from autoadapter.analyze.side_files import side_file_names
from autoadapter.analyze.sources import ByteSource, Repository, open_repository
from autoadapter.artifacts import ModelKind, ModelRef
from autoadapter.errors import BrokenCheckpointError

INDEX = ".index.json"
END_BYTES = 256 * 1024


def input_digest(ref: ModelRef) -> str:
    """64 hex digits over everything that `analyze` reads.

    Small files count by content; weights by name, size, header and, on this machine, the time of their last change.
    On the Hub the listing's own digests stand for contents. Weights themselves are never read.

    Raises:
        ModelNotFoundError: the model is gone.
        BrokenCheckpointError: a file became shorter while it was read.
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
    small = set(side_file_names(repository))
    for name, stat in repository.files().items():
        is_weights = name.endswith(WEIGHTS) and not NOT_WEIGHTS.fullmatch(name)
        changed = stat.modified_ns if is_weights else None
        yield f"{name} {stat.bytes} {stat.digest} {changed}".encode()
        if listed:
            continue
        if is_weights:
            yield _header(repository.open(name))
        elif name in small or name.endswith((INDEX, ".py")):
            yield repository.read(name)


def _header(source: ByteSource) -> bytes:
    """Bytes that say what a weight file holds: of safetensors the header, else both ends.

    GGUF begins with its metadata; an archive of torch ends with a directory that has a checksum of each member.
    """
    try:
        if source.label.endswith(".safetensors"):
            return source.read(0, safetensors_header_bytes(source))
    except BrokenCheckpointError:
        pass  # `analyze` tells, if it needs the file
    length = min(source.size, END_BYTES)
    return source.read(0, length) + source.read(source.size - length, length)
