"""Renames everything in a model that could be recognised by name, without changing what it computes."""

from typing import Any

from torch import nn


def scramble(model: nn.Module) -> dict[str, str]:
    """Rename classes, modules, parameters and buffers in place; numbers in lists of modules stay.

    Returns:
        What each parameter and buffer was called, by its new name.
    """
    before = {id(tensor): name for name, tensor in _tensors(model)}
    words: dict[str, str] = {}
    for module in list(model.modules()):
        if not isinstance(module, nn.ModuleList | nn.ModuleDict | nn.Sequential):
            _rename(module, words)
    return {name: before[id(tensor)] for name, tensor in _tensors(model)}


def _tensors(model: nn.Module) -> list[tuple[str, Any]]:
    return [*model.named_parameters(), *model.named_buffers()]


def _rename(module: nn.Module, words: dict[str, str]) -> None:
    own: dict[str, str] = {}
    for store in (module._modules, module._parameters, module._buffers):
        for name in list(store):
            own[name] = words.setdefault(name, f"x{len(words)}")
        renamed = {own[name]: value for name, value in store.items()}
        store.clear()
        store.update(renamed)
    module._non_persistent_buffers_set = {own.get(name, name) for name in module._non_persistent_buffers_set}
    module.__class__ = _translating(type(module), own)


def _translating(kind: type, own: dict[str, str]) -> type:
    """The class under another name, finding attributes by what they were called in its code."""

    def getattribute(self: nn.Module, name: str) -> Any:
        return nn.Module.__getattr__(self, own.get(name, name))

    return type(f"Thing{len(own)}", (kind,), {"__getattr__": getattribute, "__module__": "things"})
