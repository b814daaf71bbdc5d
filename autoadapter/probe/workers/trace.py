"""What a reference model did: every torch call of one forward pass, with its tensors and where they came from.

Nothing here depends on names: a parameter is recognised by its memory, a product by the call that made it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map


@dataclass(frozen=True, eq=False)
class Seen:
    """A tensor at the moment it was used or made. Equal only to itself."""

    value: torch.Tensor
    """A copy: later in-place changes do not reach it."""
    parameter: str | None
    """The parameter or buffer that this is, or is a view of, by its name in the model."""
    event: int | None
    """The event that made it; None for parameters and inputs."""


@dataclass(frozen=True, eq=False)
class Event:
    """One torch call. `args` and `kwargs` are as passed, with a `Seen` for every tensor."""

    index: int
    name: str
    """`linear`, `matmul`, `softmax`, `scaled_dot_product_attention`, `add`, …: the function's `__name__`."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outs: tuple[Seen, ...]
    module: str
    """Path of the innermost module that was running."""

    @property
    def ins(self) -> tuple[Seen, ...]:
        """The tensors among the arguments, in order."""
        return tuple(leaf for leaf in tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Seen))


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a module: the events `first` … `last - 1` happened inside it."""

    path: str
    args: tuple[Any, ...]
    """As passed, with a `Seen` for every tensor; `kwargs` likewise."""
    kwargs: dict[str, Any]
    outs: tuple[Seen, ...]
    first: int
    last: int

    @property
    def ins(self) -> tuple[Seen, ...]:
        """Tensors among positional and keyword arguments, in order."""
        return tuple(leaf for leaf in tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Seen))


def results(func: Any, args: Any, result: Any) -> tuple[str, Any, list[torch.Tensor]]:
    """Name of a torch call, its result (what was lazy is made), and the tensors that it made or wrote to.

    A call without such tensors is no event. Whoever counts events asks here, so that all count alike.
    """
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        name = getattr(getattr(func, "__self__", None), "__name__", name)
    if name == "__iter__":
        items = list(result)
        return name, iter(items), items
    if name == "__setitem__":
        return name, result, [args[0]]
    made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    return name, result, [] if name in {"grad", "data", "__set__"} else made


@dataclass(eq=False)
class Trace(TorchFunctionMode):
    """Use as a context manager around one forward pass of `model`."""

    model: nn.Module
    events: list[Event] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Index the parameters by the memory that they live in."""
        super().__init__()
        named = [*self.model.named_parameters(), *self.model.named_buffers()]
        self._storages = {tensor.untyped_storage().data_ptr(): name for name, tensor in named if tensor.numel()}
        self._seen: dict[int, Seen] = {}
        self._alive: list[torch.Tensor] = []  # an id is only unique while its tensor lives
        self._modules: list[str] = []
        self._open: list[tuple[Any, Any, int]] = []
        self._versions: dict[int, int] = {}
        self._writers: dict[int, int] = {}  # by storage: the last event that made or wrote a tensor in it
        self._hooks: list[Any] = []
        self._busy = False

    def __enter__(self) -> Self:
        """Hook every module and begin to listen."""
        for path, module in self.model.named_modules():
            self._hooks.append(module.register_forward_pre_hook(self._entering(path), with_kwargs=True))
            self._hooks.append(module.register_forward_hook(self._leaving, with_kwargs=True))
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop listening."""
        super().__exit__(*error)
        for hook in self._hooks:
            hook.remove()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the call and note it."""
        kwargs = kwargs or {}
        if self._busy:
            return func(*args, **kwargs)
        noted_args, noted_kwargs = tree_map(self._note, (tuple(args), dict(kwargs)))
        name, result, made = results(func, args, func(*args, **kwargs))
        if made:
            index = len(self.events)
            outs = tuple(self._made(tensor, index) for tensor in made)
            where = self._modules[-1] if self._modules else ""
            self.events.append(Event(index, name, noted_args, noted_kwargs, outs, where))
        return result

    def calls_of(self, path: str) -> list[Call]:
        """The calls of a module, in the order in which they ended."""
        return [call for call in self.calls if call.path == path]

    def within(self, call: Call) -> Iterator[Event]:
        """What happened inside a call."""
        return iter(self.events[call.first : call.last])

    def maker(self, seen: Seen) -> Event | None:
        """The event that made a tensor."""
        return None if seen.event is None else self.events[seen.event]

    def _note(self, leaf: Any) -> Any:
        return self._look(leaf) if isinstance(leaf, torch.Tensor) else leaf

    def _look(self, tensor: torch.Tensor) -> Seen:
        known = self._seen.get(id(tensor))
        if known is None:
            return self._remember(tensor, None)
        if self._version(tensor) != self._versions[id(tensor)]:  # written through a view
            return self._remember(tensor, self._writers.get(self._storage(tensor)))
        return known

    def _made(self, tensor: torch.Tensor, index: int) -> Seen:
        known = self._seen.get(id(tensor))
        if known is not None and known.parameter and known.event is None:
            return known
        return self._remember(tensor, index)

    def _remember(self, tensor: torch.Tensor, event: int | None) -> Seen:
        self._busy = True
        try:
            storage = tensor.untyped_storage().data_ptr()
            seen = Seen(tensor.detach().clone(), self._storages.get(storage), event)
            self._versions[id(tensor)] = tensor._version
        finally:
            self._busy = False
        self._seen[id(tensor)] = seen
        if event is not None:
            self._writers[storage] = event
        self._alive.append(tensor)
        return seen

    def _version(self, tensor: torch.Tensor) -> int:
        self._busy = True
        try:
            return tensor._version
        finally:
            self._busy = False

    def _storage(self, tensor: torch.Tensor) -> int:
        self._busy = True
        try:
            return tensor.untyped_storage().data_ptr()
        finally:
            self._busy = False

    def _entering(self, path: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any) -> None:  # noqa: ARG001
            noted = tree_map(self._note, (tuple(args), dict(kwargs)))
            self._open.append((*noted, len(self.events)))
            self._modules.append(path)

        return hook

    def _leaving(self, module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:  # noqa: ARG002
        noted_args, noted_kwargs, first = self._open.pop()
        path = self._modules.pop()
        outs = tuple(self._look(leaf) for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
        self.calls.append(Call(path, noted_args, noted_kwargs, outs, first, len(self.events)))
