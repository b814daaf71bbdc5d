"""Layers that compute alike, and words for them."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from autoadapter.artifacts.decoder import (
    Attention,
    Branch,
    GatedDeltaNet,
    LatentAttention,
    LayerKind,
    Mamba2,
    Mixer,
    Mlp,
    Moe,
    Opaque,
    ShortConv,
)

TOKEN_MIXERS = (Attention, LatentAttention, Mamba2, ShortConv, GatedDeltaNet)


def same_kind(first: Sequence[Branch], second: Sequence[Branch]) -> bool:
    """Whether two layers compute alike; the layer number in a carried-over module's path says nothing."""
    return [_unnumbered(branch) for branch in first] == [_unnumbered(branch) for branch in second]


def named_kinds(layers: Sequence[tuple[Branch, ...]]) -> tuple[LayerKind, ...]:
    """One kind for each, named by what sets it apart from the others."""
    words = [[say(branches) for say in (_mixing, _positions, _feeding)] for branches in layers]
    telling = [column for column in range(len(words[0])) if len({row[column] for row in words}) > 1]
    names = ["_".join(row[column] for column in telling if row[column]) or row[-1] or row[0] for row in words]
    return tuple(LayerKind(name=name, branches=branches) for name, branches in zip(_unique(names), layers, strict=True))


def _mixing(branches: tuple[Branch, ...]) -> str:
    return "_".join(_mixer_word(branch.mixer) for branch in branches if isinstance(branch.mixer, TOKEN_MIXERS))


def _mixer_word(mixer: Mixer) -> str:
    if isinstance(mixer, Attention | LatentAttention):
        return f"{mixer.window.kind}_attention" if mixer.window else "full_attention"
    return mixer.mixer


def _positions(branches: tuple[Branch, ...]) -> str:
    ropes = [branch.mixer.rope for branch in branches if isinstance(branch.mixer, Attention | LatentAttention)]
    return "nope" if ropes and not any(ropes) else ""


def _feeding(branches: tuple[Branch, ...]) -> str:
    words: dict[type, str] = {Mlp: "dense", Moe: "sparse", Opaque: "opaque"}
    return "_".join(words[type(branch.mixer)] for branch in branches if type(branch.mixer) in words)


def _unique(names: list[str]) -> list[str]:
    count: Counter[str] = Counter()
    result = []
    for name in names:
        count[name] += 1
        result.append(name if count[name] == 1 else f"{name}_{count[name]}")
    return result


def _unnumbered(branch: Branch) -> Branch:
    if not isinstance(branch.mixer, Opaque):
        return branch
    number: Callable[[str], str] = lambda path: re.sub(r"\d+", "#", path)  # noqa: E731
    return branch.model_copy(update={"mixer": branch.mixer.model_copy(update={"module": number(branch.mixer.module)})})
