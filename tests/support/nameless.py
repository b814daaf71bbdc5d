"""Small decoders whose names say nothing: only what they compute can be known."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, VOCABULARY, TOKENS = 16, 31, 13
IDS = torch.randint(0, VOCABULARY, (1, TOKENS), generator=torch.Generator().manual_seed(3))


class Settings(dict[str, Any]):
    """A config: attributes and `to_dict`, as transformers has them."""

    def __getattr__(self, key: str) -> Any:
        """A stated value."""
        try:
            return self[key]
        except KeyError as error:
            raise AttributeError(key) from error

    def to_dict(self) -> dict[str, Any]:
        """All of them."""
        return dict(self)


class Zif(nn.Module):
    """RMS norm."""

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.q = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] → the same shape."""
        return self.q * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Mixing(nn.Module):
    """A causal mean of projected tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[1, tokens, width] → the same shape."""
        weights = torch.ones(x.shape[1], x.shape[1]).tril()
        return self.b(torch.matmul(weights / weights.sum(-1, keepdim=True), self.a(x)))


class Wise(nn.Module):
    """A token-wise block."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """[1, tokens, width] → the same shape."""
        return self.b(F.silu(self.a(x)))


class Blob(nn.Module):
    """A layer whose wiring is a function of its parts and its input."""

    def __init__(self, wiring: Callable[["Blob", Tensor], Any]) -> None:
        super().__init__()
        self.m, self.w, self.v = Mixing(), Wise(), Wise()
        self.n = nn.ModuleList(Zif() for _ in range(4))
        self.z = nn.Parameter(torch.tensor(0.5))
        self.wiring = wiring

    def forward(self, x: Any) -> Any:
        """Whatever the wiring takes and gives."""
        return self.wiring(self, x)


class Pile(nn.Module):
    """Embedding, layers, final norm and head."""

    def __init__(
        self,
        wiring: Callable[[Blob, Any], Any],
        *,
        start: Callable[["Pile", Tensor], Any] | None = None,
        stop: Callable[["Pile", Any], Tensor] | None = None,
        depth: int = 3,
    ) -> None:
        super().__init__()
        self.e = nn.Embedding(VOCABULARY, WIDTH)
        self.p = nn.Embedding(TOKENS + 4, WIDTH)
        self.k = nn.ModuleList(Blob(wiring) for _ in range(depth))
        self.f = Zif(1e-6)
        self.h = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.config = Settings(num_hidden_layers=depth, rms_norm_eps=1e-5, hidden_size=WIDTH)
        self.start = start or (lambda self, ids: self.e(ids))
        self.stop = stop or (lambda self, x: self.h(self.f(x)))

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> Any:
        """Ids [1, tokens] → logits."""
        x = self.start(self, input_ids)
        for layer in self.k:
            x = layer(x)
        return SimpleNamespace(logits=self.stop(self, x))


def pile(wiring: Callable[[Blob, Any], Any], **options: Any) -> Pile:
    """A decoder with fixed random weights."""
    torch.manual_seed(0)
    return Pile(wiring, **options).eval()
