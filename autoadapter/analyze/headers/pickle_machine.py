"""What a PyTorch checkpoint's `data.pkl` describes, without unpickling it.

The opcodes are read with `pickletools.genops` and run on a stack of inert values: a global is a name, a call is a
record of a name and its arguments. Only the calls that torch's own `save` writes for a state dict are understood;
any other global ends the reading with its name. Nothing is imported and nothing is called.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from autoadapter.analyze.text import is_whole
from autoadapter.errors import BrokenCheckpointError

REBUILD_TENSOR = "torch._utils._rebuild_tensor_v2"
REBUILD_PARAMETER = "torch._utils._rebuild_parameter"
ORDERED_DICT = "collections.OrderedDict"
STORAGES = {
    "torch.FloatStorage": "F32", "torch.DoubleStorage": "F64", "torch.HalfStorage": "F16",
    "torch.BFloat16Storage": "BF16", "torch.LongStorage": "I64", "torch.IntStorage": "I32",
    "torch.ShortStorage": "I16", "torch.CharStorage": "I8", "torch.ByteStorage": "U8", "torch.BoolStorage": "BOOL",
}  # fmt: skip
"""torch's storage class (serialization.py, `_legacy` names kept by the zip format) → safetensors' dtype."""
KNOWN_GLOBALS = {REBUILD_TENSOR, REBUILD_PARAMETER, ORDERED_DICT, *STORAGES}
MOST_OPCODES = 5_000_000
MOST_DIMENSIONS = 64
"""More than any tensor of a model has; torch's own kernels stop at 64, too."""

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Global:
    """A name that the pickle asks for; never resolved."""

    name: str


@dataclass(frozen=True)
class Storage:
    """A persistent id: where a tensor's bytes lie in the archive."""

    dtype: str
    key: str
    elements: int


@dataclass(frozen=True)
class Tensor:
    """A rebuilt tensor's description."""

    storage: Storage
    shape: tuple[int, ...]
    needed: int
    """Elements of the storage up to the tensor's last one."""


class _Mark:
    """Where a variable-length item began."""


_MARK = _Mark()
_CONSTANTS: dict[str, object] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = {
    "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "BINFLOAT", "FLOAT", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "UNICODE", "SHORT_BINSTRING", "BINSTRING", "BINBYTES", "SHORT_BINBYTES",
}  # fmt: skip


class PickleMachine:
    """One run over one pickle."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}
        self._steps: dict[str, Callable[[], None]] = {
            "MARK": lambda: self._push(_MARK),
            "EMPTY_TUPLE": lambda: self._push(()),
            "EMPTY_LIST": lambda: self._push([]),
            "EMPTY_DICT": lambda: self._push({}),
            "TUPLE": lambda: self._push(tuple(self._pop_to_mark())),
            "TUPLE1": lambda: self._push_tuple(1),
            "TUPLE2": lambda: self._push_tuple(2),
            "TUPLE3": lambda: self._push_tuple(3),
            "STACK_GLOBAL": self._stack_global,
            "MEMOIZE": lambda: self._put(len(self._memo)),
            "BINPERSID": self._persistent_id,
            "REDUCE": self._reduce,
            "BUILD": self._build,
            "SETITEM": self._set_item,
            "SETITEMS": self._set_items,
            "APPEND": self._append,
            "APPENDS": self._append_many,
            "POP": lambda: self._ignore(self._pop()),
        }

    def run(self, data: bytes) -> object:
        """The value that the pickle describes: dicts, lists, numbers, texts and `Tensor`s.

        Raises:
            BrokenCheckpointError: a foreign global, an opcode outside a state dict, or damage.
        """
        try:
            for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
                if opcode.name == "STOP":
                    return self._pop()
                if count > MOST_OPCODES:
                    self._refuse("it has more instructions than a list of tensors needs")
                self._step(opcode.name, argument)
        except (ValueError, IndexError, TypeError, KeyError, OverflowError, RecursionError) as error:
            self._refuse(f"its data.pkl is damaged ({type(error).__name__})")
        self._refuse("its data.pkl has no end")

    def _step(self, name: str, argument: object) -> None:
        if name in ("PROTO", "FRAME"):
            return
        if name in _CONSTANTS:
            self._push(_CONSTANTS[name])
        elif name in _LITERALS:
            if isinstance(argument, str) and not is_whole(argument):
                self._refuse("one of its names is no text (half of a surrogate pair)")
            self._push(argument)
        elif name == "GLOBAL":
            self._push(self._global(str(argument).replace(" ", ".", 1)))
        elif name in ("BINPUT", "LONG_BINPUT") and isinstance(argument, int):
            self._put(argument)
        elif name in ("BINGET", "LONG_BINGET") and isinstance(argument, int):
            self._push(self._memo[argument])
        elif name in self._steps:
            self._steps[name]()
        else:
            self._refuse(f"its data.pkl uses the instruction {name}, which no list of tensors needs")

    def _push(self, value: object) -> None:
        self._stack.append(value)

    def _pop(self) -> object:
        return self._stack.pop()

    @staticmethod
    def _ignore(_: object) -> None:
        """A popped value that nobody needs."""

    def _pop_to_mark(self) -> list[object]:
        items: list[object] = []
        while (item := self._pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _push_tuple(self, count: int) -> None:
        items = [self._pop() for _ in range(count)]
        self._push(tuple(items[::-1]))

    def _put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def _global(self, name: str) -> Global:
        if name not in KNOWN_GLOBALS:
            self._refuse(f"its pickle asks for {name}, which is not part of a list of tensors; nothing was run")
        return Global(name)

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(name, str) or not isinstance(module, str):
            self._refuse("it asks for something whose name is no text")
        self._push(self._global(f"{module}.{name}"))

    def _persistent_id(self) -> None:
        match self._pop():
            case ("storage", Global(name), str(key), str(), int(elements)) if name in STORAGES and elements >= 0:
                self._push(Storage(STORAGES[name], key, elements))
            case _:
                self._refuse("it refers to bytes in a way that torch.save does not")

    def _reduce(self) -> None:
        arguments, function = self._pop(), self._pop()
        match function, arguments:
            case Global(name), (Storage() as storage, int(offset), tuple(shape), tuple(strides), *_) if (
                name == REBUILD_TENSOR
            ):
                sizes = _counts(shape)
                self._push(Tensor(storage, sizes, _reach(offset, sizes, _counts(strides))))
            case Global(name), (Tensor() as tensor, *_) if name == REBUILD_PARAMETER:
                self._push(tensor)
            case Global(name), () if name == ORDERED_DICT:
                self._push({})
            case _:
                self._refuse("it calls something that a list of tensors does not")

    def _build(self) -> None:
        self._pop()  # a state dict's `_metadata`: versions of modules, no tensors
        if not isinstance(self._stack[-1], dict):
            self._refuse("it sets the state of something that is not a dict")

    def _set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._store(key, value)

    def _set_items(self) -> None:
        items = self._pop_to_mark()
        self._target(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            self._store(key, value)

    def _store(self, key: object, value: object) -> None:
        """Only names and numbers are keys: to hash a tuple of tuples of itself takes for ever."""
        if not isinstance(key, str | int):
            self._refuse("a key of one of its dicts is neither a name nor a number")
        self._target(dict)[key] = value

    def _append(self) -> None:
        value = self._pop()
        self._target(list).append(value)

    def _append_many(self) -> None:
        items = self._pop_to_mark()
        self._target(list).extend(items)

    def _target(self, kind: type[Kind]) -> Kind:
        top = self._stack[-1]
        if not isinstance(top, kind):
            self._refuse("its data.pkl is damaged (an item without a container)")
        return top

    def _refuse(self, why: str) -> NoReturn:
        raise BrokenCheckpointError(
            self._label,
            f"refused: {why}",
            hint="Use the safetensors version of the model, or convert the file where you trust its author.",
        )


def _counts(values: tuple[object, ...]) -> tuple[int, ...]:
    counts = tuple(value for value in values if isinstance(value, int) and 0 <= value < 2**63)
    if len(counts) != len(values) or len(counts) > MOST_DIMENSIONS:
        raise ValueError("a shape of something else than counts")
    return counts


def _reach(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements of its storage that a tensor reaches into."""
    if offset < 0 or len(shape) != len(strides):
        raise ValueError("an offset or strides that fit no tensor")
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return offset + last + 1 if all(shape) else 0
