"""Finds the softmax attention inside a block: what was multiplied to scores, and what mixes the values."""

from dataclasses import dataclass

import torch

from autoadapter.probe.workers.fit.attention.flow import MOVES, PRODUCTS, between, token_axis
from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.scene import Block, Scene
from autoadapter.probe.workers.trace import Event, Seen


@dataclass(frozen=True, eq=False)
class Heads:
    """An operand of the core, by heads."""

    seen: Seen
    value: torch.Tensor
    """[heads, tokens, dim]"""
    index: torch.Tensor
    """[heads, dim]: which column of `columns(seen.value)` each element is."""


@dataclass(frozen=True, eq=False)
class Core:
    """softmax(f(q · k)) · v, as seen."""

    q: Heads
    k: Heads
    v: Heads
    out: Heads
    logits: torch.Tensor
    """[heads, tokens, keys]: what went into the softmax; one key more than tokens under a sink."""
    events: tuple[Event, ...]
    """The calls from the scores to the softmax."""

    @property
    def scores(self) -> torch.Tensor:
        """[heads, tokens, tokens]: q · k, unscaled."""
        return self.q.value @ self.k.value.transpose(-1, -2)


def find_core(scene: Scene, block: Block) -> Core:
    """The one softmax attention of a block.

    Raises:
        UnexplainedError: there is none, or the block mixes tokens in more ways than one.
    """
    tokens = scene.ids.shape[1]
    whole = [e for e in block.events if e.name == "scaled_dot_product_attention"]
    if len(whole) == 1:
        return _from_fused(whole[0], tokens)
    soft = [e for e in block.events if e.name in ("softmax", "_softmax", "softmax_") and _is_scores(e.outs[0], tokens)]
    for event in soft:
        core = _from_softmax(scene, block, event, tokens)
        if core is not None and len(soft) == 1:
            return core
    why = "no softmax over keys" if not soft else f"{len(soft)} softmax over keys, or scores of more than one product"
    raise UnexplainedError(block.module, (), why)


def _is_scores(seen: Seen, tokens: int) -> bool:
    shape = seen.value.shape
    return len(shape) >= 3 and shape[-2] == tokens and shape[-1] in (tokens, tokens + 1)


def _from_softmax(scene: Scene, block: Block, event: Event, tokens: int) -> Core | None:
    logits = event.ins[0]
    scores = [
        e
        for e in between(scene.trace, block.x, logits)
        if e.name in PRODUCTS
        and not any(i.parameter for i in e.ins)
        and e.outs[0].value.numel() % tokens**2 == 0
        and list(e.outs[0].value.shape).count(tokens) >= 2
    ]
    mixing = _mixing(block.events, event)
    if len(scores) != 1 or mixing is None:
        return None
    q, k = _score_operands(scores[0], tokens)
    v, out = _value_operands(mixing, tokens)
    keys = logits.value.shape[-1]
    path = tuple(e for e in between(scene.trace, scores[0].outs[0], logits))
    return Core(q, k, v, out, logits.value.float().reshape(-1, tokens, keys), path)


def _mixing(events: tuple[Event, ...], softmax: Event) -> Event | None:
    """The product of the unchanged probabilities with values."""
    known = {softmax.outs[0]}
    for event in events:
        if event.index <= softmax.index or not any(seen in known for seen in event.ins):
            continue
        if event.name in PRODUCTS:
            return event
        if event.name not in MOVES:
            return None
        known.update(event.outs)
    return None


def _labels(event: Event) -> tuple[str, str, str]:
    """Einsum letters of the two operands and the result; those of a batched product otherwise."""
    if event.name == "einsum":
        left, out = str(event.args[0]).replace(" ", "").split("->")
        first, second = left.split(",")
        return first, second, out
    first, second = _pair(event)
    rank = max(first.value.ndim, second.value.ndim)
    batch = "abcdefg"[: rank - 2]
    return batch[rank - first.value.ndim :] + "xy", batch[rank - second.value.ndim :] + "yz", batch + "xz"


def _pair(event: Event) -> tuple[Seen, Seen]:
    ins = event.ins
    return (ins[1], ins[2]) if event.name == "baddbmm" else (ins[0], ins[1])


def _score_operands(event: Event, tokens: int) -> tuple[Heads, Heads]:
    a, b, out = _labels(event)
    first, second = _pair(event)
    summed = next(letter for letter in a if letter in b and letter not in out)
    row = next(letter for letter in out if letter in a and letter not in b)
    column = next(letter for letter in out if letter in b and letter not in a)
    batch = "".join(letter for letter in out if letter not in (row, column))
    sizes = dict(zip(a, first.value.shape, strict=True)) | {
        letter: size for letter, size in zip(b, second.value.shape, strict=True) if size > 1
    }
    for letter, size in zip(a, first.value.shape, strict=True):
        sizes[letter] = max(sizes[letter], size)
    return (
        _heads(first, a, batch + row + summed, sizes, tokens),
        _heads(second, b, batch + column + summed, sizes, tokens),
    )


def _value_operands(event: Event, tokens: int) -> tuple[Heads, Heads]:
    a, b, out = _labels(event)
    first, second = _pair(event)
    key = next(letter for letter in a if letter in b and letter not in out)
    row = next(letter for letter in out if letter in a and letter not in b)
    feature = next(letter for letter in out if letter in b and letter not in a)
    batch = "".join(letter for letter in a if letter not in (key, row))
    sizes = dict(zip(a, first.value.shape, strict=True)) | {
        letter: size for letter, size in zip(b, second.value.shape, strict=True) if size > 1
    }
    sizes.update(dict(zip(out, event.outs[0].value.shape, strict=True)))
    return (
        _heads(second, b, batch + key + feature, sizes, tokens),
        _heads(event.outs[0], out, batch + row + feature, sizes, tokens),
    )


def _heads(seen: Seen, labels: str, wanted: str, sizes: dict[str, int], tokens: int) -> Heads:
    def arrange(value: torch.Tensor) -> torch.Tensor:
        for letter in wanted:
            if letter not in labels:
                value = value.unsqueeze(0)
        order = "".join(letter for letter in reversed(wanted) if letter not in labels) + labels
        value = value.permute([order.index(letter) for letter in wanted])
        return value.expand([sizes[letter] for letter in wanted]).flatten(0, -3)

    index = _column_index(seen.value, tokens)
    return Heads(seen, arrange(seen.value).float(), arrange(index)[:, 0, :])


def _column_index(value: torch.Tensor, tokens: int) -> torch.Tensor:
    """Of every element, its column in `columns(value)`."""
    axis = token_axis(value, tokens)
    if axis is None:
        raise UnexplainedError("", (), f"an operand of shape {tuple(value.shape)} has no axis of {tokens} tokens")
    rest = [size for at, size in enumerate(value.shape) if at != axis]
    index = torch.arange(value.numel() // tokens).reshape(rest)
    return index.unsqueeze(axis).expand(value.shape)


def _from_fused(event: Event, tokens: int) -> Core:
    """`scaled_dot_product_attention` said as scores and softmax."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given = dict(zip(names, event.args, strict=False)) | event.kwargs
    parts = []
    for name in ("query", "key", "value"):
        value = given[name].value
        heads = value.flatten(0, -3)
        index = _column_index(value, tokens).flatten(0, -3)[:, 0, :]
        parts.append((given[name], heads, index))
    heads = parts[0][1].shape[0]
    q, k, v = (
        Heads(s, x.repeat_interleave(heads // x.shape[0], 0).float(), i.repeat_interleave(heads // i.shape[0], 0))
        for s, x, i in parts
    )
    scale = given.get("scale") or q.value.shape[-1] ** -0.5
    logits = (q.value @ k.value.transpose(-1, -2)) * scale
    if given.get("is_causal"):
        logits = logits.masked_fill(~torch.ones(tokens, tokens, dtype=torch.bool).tril(), float("-inf"))
    mask = given.get("attn_mask")
    if mask is not None:
        allowed = mask.value.dtype == torch.bool
        bias = torch.zeros(mask.value.shape).masked_fill(~mask.value, float("-inf")) if allowed else mask.value
        logits = (logits + bias).reshape(heads, tokens, tokens)
    out = event.outs[0]
    made = Heads(out, out.value.flatten(0, -3).float(), _column_index(out.value, tokens).flatten(0, -3)[:, 0, :])
    return Core(q, k, v, made, logits, ())
