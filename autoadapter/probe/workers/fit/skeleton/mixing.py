"""Runs a layer again with one tensor changed: what follows of it, and does it reach other tokens?"""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from autoadapter.probe.workers.fit.skeleton.flow import Flow
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Call, Seen, results

STEPS = (1e-2, 1e-3, 1e-4)
"""Sizes of the change, relative; the next one where the last made another path of events, as a router may."""
REACHED = 1e-3
"""Of the change at the changed token: more than this elsewhere is no rounding."""


class _Intervention(TorchFunctionMode):
    """Counts events as the trace did; replaces what one made and keeps what another made."""

    def __init__(self, first: int, change: dict[int, torch.Tensor], keep: Seen) -> None:
        super().__init__()
        self.names: list[str] = []
        self.kept: torch.Tensor | None = None
        self._first, self._change, self._keep = first, change, keep

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, result, made = results(func, args, func(*args, **(kwargs or {})))
        if not made:
            return result
        index = self._first + len(self.names)
        self.names.append(name)
        if index in self._change:
            for tensor in made:
                if tensor.shape == self._change[index].shape:
                    tensor.copy_(self._change[index])
        if index == self._keep.event:
            same = [tensor for tensor in made if tensor.shape == self._keep.value.shape]
            self.kept = same[0].detach().clone() if same else None
        return result


def rerun(scene: Scene, call: Call, change: tuple[Seen, torch.Tensor], keep: Seen) -> tuple[torch.Tensor | None, bool]:
    """What `keep` becomes when a tensor of the call gets other elements; and whether the same events happened."""
    seen, value = change
    inside = seen.event is not None and call.first <= seen.event < call.last
    mode = _Intervention(call.first, {seen.event: value} if inside and seen.event is not None else {}, keep)
    fresh = {id(leaf): leaf.value.clone() for leaf in call.ins}
    if not inside:
        fresh.update({id(leaf): value.clone() for leaf in call.ins if torch.equal(leaf.value, seen.value)})
    args, kwargs = tree_map(lambda leaf: fresh[id(leaf)] if isinstance(leaf, Seen) else leaf, (call.args, call.kwargs))
    with torch.no_grad(), mode:
        scene.model.get_submodule(call.path)(*args, **kwargs)
    expected = [event.name for event in scene.trace.within(call)]
    until = len(expected) if keep.event is None else keep.event + 1 - call.first
    return mode.kept, mode.names[:until] == expected[:until]


def mixes_tokens(scene: Scene, flow: Flow, call: Call, x: Seen, y: Seen) -> bool:
    """Whether other tokens of `y` [1, tokens, width] change when one token of `x` does."""
    x, y = flow.root(x), flow.root(y)
    tokens = scene.ids.shape[1]
    token = tokens // 3
    noise = torch.randn(x.value.shape[-1], generator=torch.Generator().manual_seed(0))
    for step in STEPS:
        changed = x.value.clone()
        changed.view(tokens, -1)[token] += noise * step * changed.abs().mean()
        after, alike = rerun(scene, call, (x, changed), y)
        if alike and after is not None:
            moved = (after - y.value).abs().reshape(tokens, -1).amax(-1)
            others = torch.cat([moved[:token], moved[token + 1 :]]).max()
            return bool(others > REACHED * moved[token])
    return True
