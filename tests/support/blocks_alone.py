"""Small modules alone, as blocks that a fitter is to explain; names that say nothing."""

from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autoadapter.probe.workers.scene import Block, Scene
from autoadapter.probe.workers.trace import Trace

TOKENS, HIDDEN, INNER, EXPERTS, CHOSEN = 29, 32, 20, 6, 2
SMALL_CONFIG = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_experts": EXPERTS,
    "num_experts_per_tok": CHOSEN,
    "routed_scaling_factor": 2.5,
    "swiglu_limit": 0.7,
}


def seen_alone(module: nn.Module, **config: Any) -> tuple[Scene, Block]:
    """One traced call of a module on random input, as the only block of a layer."""
    torch.manual_seed(1)
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            nn.init.normal_(tensor, std=tensor.shape[-1] ** -0.5 if tensor.ndim > 1 else 0.3)
    layer = nn.Module()
    layer.add_module("q", module)
    model = nn.Module()
    model.add_module("z", nn.ModuleList([layer]))
    x = torch.randn(1, TOKENS, HIDDEN)
    trace = Trace(model.eval())
    with torch.no_grad(), trace:
        module(x)
    call = trace.calls_of("z.0.q")[0]
    scene = Scene(model, SimpleNamespace(**SMALL_CONFIG | config), x, x, trace, ("z.0",))
    return scene, Block(0, "z.0.q", call.ins[0], call.outs[0], tuple(trace.within(call)), mixes_tokens=False)


class Gated(nn.Module):
    """act(a x) · b x, with what the options say."""

    def __init__(
        self, *, bias: bool = False, swapped: bool = False, act: Any = F.silu, limit: float | None = None
    ) -> None:
        """`swapped`: the up branch is the first that is called; `limit`: clamps."""
        super().__init__()
        self.a, self.b = nn.Linear(HIDDEN, INNER, bias=bias), nn.Linear(HIDDEN, INNER, bias=bias)
        self.c = nn.Linear(INNER, HIDDEN, bias=bias)
        self.swapped, self.act, self.limit = swapped, act, limit

    def forward(self, x: Tensor) -> Tensor:
        """For x [..., hidden] → [..., hidden]."""
        first, second = self.a(x), self.b(x)
        gate, up = (second, first) if self.swapped else (first, second)
        if self.limit is not None:
            gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        return self.c(self.act(gate) * up)


class Fused(nn.Module):
    """Gate and up in one product: halves, swapped halves or interleaved columns."""

    def __init__(self, layout: str) -> None:
        """`layout`: `gate|up`, `up|gate` or `interleaved`."""
        super().__init__()
        self.a, self.c, self.layout = nn.Linear(HIDDEN, 2 * INNER), nn.Linear(INNER, HIDDEN, bias=False), layout

    def forward(self, x: Tensor) -> Tensor:
        """For x [..., hidden] → [..., hidden]."""
        both = self.a(x)
        first, second = (both[..., ::2], both[..., 1::2]) if self.layout == "interleaved" else both.chunk(2, dim=-1)
        gate, up = (second, first) if self.layout == "up|gate" else (first, second)
        return self.c(F.gelu(gate) * up)


class Ungated(nn.Module):
    """Weights lie as [inputs, outputs], as in GPT-2."""

    def __init__(self, act: Any) -> None:
        """`act`: the activation."""
        super().__init__()
        self.a, self.c = nn.Parameter(torch.empty(HIDDEN, 4 * HIDDEN)), nn.Parameter(torch.empty(4 * HIDDEN, HIDDEN))
        self.b, self.act = nn.Parameter(torch.empty(4 * HIDDEN)), act

    def forward(self, x: Tensor) -> Tensor:
        """For x [..., hidden] → [..., hidden]."""
        flat = x.view(-1, HIDDEN)
        return (self.act(torch.addmm(self.b, flat, self.a)) @ self.c).view(x.shape)


class NamedExperts(nn.Module):
    """One module an expert, as in code from before experts were stacked; softmax, renormalised."""

    def __init__(self, shared: bool = False) -> None:
        """`shared`: an expert that every token uses, under a gate."""
        super().__init__()
        self.r = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.e = nn.ModuleList([Gated(swapped=True) for _ in range(EXPERTS)])
        if shared:
            self.s, self.g = Gated(), nn.Linear(HIDDEN, 1, bias=False)

    def weigh(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and numbers of the chosen experts, both [tokens, chosen]."""
        weights, chosen = logits.softmax(-1).topk(CHOSEN, dim=-1)
        return weights / weights.sum(-1, keepdim=True), chosen

    def forward(self, x: Tensor) -> Tensor:
        """For x [1, tokens, hidden] → the same shape."""
        flat = x.view(-1, HIDDEN)
        weights, chosen = self.weigh(self.r(flat))
        out = torch.zeros_like(flat)
        for index, expert in enumerate(self.e):
            place, token = torch.where((chosen == index).T)
            if len(token):
                out.index_add_(0, token, expert(flat[token]) * weights[token, place, None])
        if hasattr(self, "s"):
            out = out + torch.sigmoid(self.g(flat)) * self.s(flat)
        return out.view(x.shape)


class StackedExperts(nn.Module):
    """Experts in one tensor [experts, inputs, outputs]; sigmoid scores, corrected, inside groups, scaled."""

    def __init__(self, *, corrected: bool = True, groups: int = 3, scale: float = 2.5, average: bool = False) -> None:
        """`average`: a shared expert, and the mean of both."""
        super().__init__()
        self.r, self.k = nn.Parameter(torch.empty(EXPERTS, HIDDEN)), nn.Parameter(torch.empty(EXPERTS))
        self.a = nn.Parameter(torch.empty(EXPERTS, HIDDEN, 2 * INNER))
        self.b = nn.Parameter(torch.empty(EXPERTS, 2 * INNER))
        self.c = nn.Parameter(torch.empty(EXPERTS, INNER, HIDDEN))
        self.corrected, self.groups, self.scale = corrected, groups, scale
        if average:
            self.s = Gated()

    def forward(self, x: Tensor) -> Tensor:
        """For x [1, tokens, hidden] → the same shape."""
        flat = x.view(-1, HIDDEN)
        scores = F.linear(flat, self.r).sigmoid()
        choice = scores + self.k if self.corrected else scores
        if self.groups > 1:
            parts = choice.view(-1, self.groups, EXPERTS // self.groups)
            best = parts.topk(2, dim=-1).values.sum(-1).topk(2, dim=-1).indices
            mask = torch.zeros(parts.shape[:2]).scatter(1, best, 1.0)
            choice = parts.masked_fill(mask[..., None] == 0, float("-inf")).view(-1, EXPERTS)
        chosen = choice.topk(CHOSEN, dim=-1).indices
        weights = scores.gather(1, chosen) * self.scale
        out = torch.zeros_like(flat)
        for index in chosen.unique():
            token, place = torch.where(chosen == index)
            gate, up = (flat[token] @ self.a[index] + self.b[index]).chunk(2, dim=-1)
            out.index_add_(0, token, (F.silu(gate) * up) @ self.c[index] * weights[token, place, None])
        return ((out + self.s(flat)) / 2 if hasattr(self, "s") else out).view(x.shape)


class SparselyMixed(NamedExperts):
    """PhiMoE's routing: one expert after the other, each weighed among those near the best of the rest."""

    def weigh(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and numbers of the chosen experts, both [tokens, chosen]."""
        first, one = logits.max(-1, keepdim=True)
        far = (first - logits) / logits.abs().clamp(min=first) > 2 * 0.01
        weight = logits.masked_fill(far, float("-inf")).softmax(-1).gather(-1, one)
        rest = logits.scatter(-1, one, float("-inf"))
        second, two = rest.max(-1, keepdim=True)
        far = (second - logits) / logits.abs().clamp(min=second) > 2 * 0.01
        other = rest.masked_fill(far, float("-inf")).softmax(-1).gather(-1, two)
        return torch.cat([weight, other], -1), torch.cat([one, two], -1)


class Odd(nn.Module):
    """Token-wise, and of no known kind."""

    def __init__(self) -> None:
        """Two products around a sine."""
        super().__init__()
        self.a, self.c = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        """For x [..., hidden] → [..., hidden]."""
        return self.c(torch.sin(3 * self.a(x)))
