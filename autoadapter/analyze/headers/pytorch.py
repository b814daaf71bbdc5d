"""PyTorch `.bin`: a zip archive whose `data.pkl` names the tensors. Read by range, never unpickled."""

import io
import zipfile
from typing import NoReturn

from autoadapter.analyze.headers.pickle_machine import PickleMachine, Tensor
from autoadapter.analyze.headers.safetensors import DTYPE_BITS
from autoadapter.analyze.headers.tensor import TensorInfo
from autoadapter.analyze.sources.byte_source import ByteSource, SourceFile
from autoadapter.errors import BrokenCheckpointError

MOST_PICKLE_BYTES = 64 * 1024 * 1024
"""Names and shapes of 100,000 tensors have a few megabytes."""
MOST_DIRECTORY_BYTES = 32 * 1024 * 1024
"""The archive's list of members, of some 70 bytes each; Python's reader would unpack more of them into gigabytes."""
TAIL_BYTES = 64 * 1024 + 22 + 76
END, END_64 = b"PK\x05\x06", b"PK\x06\x06"
BUFFER_BYTES = 256 * 1024
"""One request reaches back from the end of the file over the whole directory of a usual archive."""
CONTAINERS = ("state_dict", "model", "module")
"""Keys below which training frameworks put the state dict."""


def read_pytorch(source: ByteSource, file: str) -> tuple[TensorInfo, ...]:
    """Tensors of one file, in the order of the state dict. Views of one storage share its bytes.

    Raises:
        BrokenCheckpointError: truncated, not an archive of torch.save, or its pickle asks for foreign code.
    """
    pickled, sizes = _unpack(source)
    document = PickleMachine(source.label).run(pickled)
    if not isinstance(document, dict):
        _broken(source, "its data.pkl describes no dict of tensors")
    tensors = {name: value for name, value in _state_dict(document).items() if isinstance(value, Tensor)}
    if not tensors:
        _broken(source, "its data.pkl names no tensors")
    return tuple(_info(source, str(name), tensor, sizes, file) for name, tensor in tensors.items())


def _unpack(source: ByteSource) -> tuple[bytes, dict[str, int]]:
    """`data.pkl`, and the stored bytes of each storage by its key."""
    if _directory_bytes(source) > MOST_DIRECTORY_BYTES:
        _broken(source, "an archive of more members than any checkpoint has: torch.save did not write it")
    try:
        with zipfile.ZipFile(io.BufferedReader(SourceFile(source), BUFFER_BYTES)) as archive:
            members = {member.filename: member for member in archive.infolist()}
            name = next((name for name in members if name == "data.pkl" or name.endswith("/data.pkl")), None)
            if name is None:
                _broken(source, "a zip archive without data.pkl: torch.save did not write it")
            if members[name].compress_type != zipfile.ZIP_STORED or members[name].file_size > MOST_PICKLE_BYTES:
                _broken(source, "its data.pkl is compressed or huge: torch.save did not write it")
            root = name.removesuffix("data.pkl") + "data/"
            sizes = {path.removeprefix(root): m.file_size for path, m in members.items() if path.startswith(root)}
            return archive.read(name), sizes
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, ValueError, EOFError, KeyError):
        _broken(source, "not a zip archive: truncated, written by torch before 1.6, or another kind of file")


def _directory_bytes(source: ByteSource) -> int:
    """What the archive says of the size of its directory; 0 where it says nothing, which `zipfile` refuses itself.

    Source: APPNOTE.TXT 4.3.14 and 4.3.16, the end of the central directory.
    """
    length = min(source.size, TAIL_BYTES)
    tail = source.read(source.size - length, length)
    sizes = [
        int.from_bytes(tail[at + offset : at + offset + width], "little")
        for magic, offset, width in ((END, 12, 4), (END_64, 40, 8))
        if (at := tail.rfind(magic)) >= 0
    ]
    return max((size for size in sizes if size != 0xFFFFFFFF), default=0)


def _state_dict(document: dict[object, object]) -> dict[object, object]:
    if any(isinstance(value, Tensor) for value in document.values()):
        return document
    inner = (document.get(key) for key in CONTAINERS)
    return next((value for value in inner if isinstance(value, dict)), document)


def _info(source: ByteSource, name: str, tensor: Tensor, sizes: dict[str, int], file: str) -> TensorInfo:
    storage = tensor.storage
    if tensor.needed > storage.elements:
        _broken(source, f"tensor {name!r} reaches {tensor.needed} elements into a storage that has {storage.elements}")
    needed = storage.elements * DTYPE_BITS[storage.dtype] // 8
    stored = sizes.get(storage.key)
    if stored is None or stored < needed:
        _broken(source, f"tensor {name!r} needs {needed} bytes and the archive has {stored or 0} for it")
    info = TensorInfo(name, storage.dtype, tensor.shape, 0, file)
    return TensorInfo(name, storage.dtype, tensor.shape, info.elements * DTYPE_BITS[storage.dtype] // 8, file)


def _broken(source: ByteSource, problem: str) -> NoReturn:
    raise BrokenCheckpointError(source.label, problem)
