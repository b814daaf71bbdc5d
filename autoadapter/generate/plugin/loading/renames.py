"""The fewest and shortest rules of a `WeightsMapper` that map every name of a checkpoint."""

import re
from collections.abc import Iterable, Mapping, Sequence

from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin.loading.mapper import Mapper, Shard
from autoadapter.generate.plugin.loading.pairs import EXPERT, LAYER, Pair


def find_mapper(pairs: Sequence[Pair], ignored: Sequence[str]) -> Mapper:
    """Rules for all pairs; `ignored` names are dropped.

    Raises:
        UnsupportedModelError: no set of rules maps every name; says which name is left.
    """
    for is_short in (True, False):
        mapper = _mapper(pairs, ignored, is_short)
        wrong = _unmapped(mapper, pairs, ignored)
        if wrong is None:
            return mapper
    raise UnsupportedModelError(f"no rule maps the checkpoint's {wrong}")


def _unmapped(mapper: Mapper, pairs: Iterable[Pair], ignored: Iterable[str]) -> str | None:
    for pair in pairs:
        for old, final in pair.samples():
            if mapper.map(old) != final:
                return old
    kept = (name for name in ignored if mapper.map(name.replace(LAYER, "0").replace(EXPERT, "0")) is not None)
    return next(kept, None)


def _mapper(pairs: Sequence[Pair], ignored: Sequence[str], is_short: bool) -> Mapper:
    rules = _Rules([pair.old for pair in pairs], is_short)
    for name in ignored:
        head, tail = _cut(name)
        if tail is None:
            rules.prefix[head] = None
        else:
            rules.substr[tail.replace(EXPERT, "")] = None
    for pair in pairs:
        rules.add(pair)
    substr, prefix = _longest_first(rules.substr), _needed(_longest_first(rules.prefix))
    renaming = Mapper(rules.regex, substr, {}, prefix)
    return Mapper(rules.regex, substr, _stacked(pairs, renaming, is_short), prefix)


def _longest_first(rules: Mapping[str, str | None]) -> dict[str, str | None]:
    return dict(sorted(rules.items(), key=lambda rule: -len(rule[0])))


def _needed(prefixes: dict[str, str | None]) -> dict[str, str | None]:
    """Without rules that a shorter one makes needless: `a.` → `b.` says `a.x.` → `b.x.`, too."""

    def is_said(old: str, new: str | None) -> bool:
        shorter = (rule for rule in prefixes.items() if rule[0] != old and old.startswith(rule[0]))
        first = next(shorter, None)
        return first is not None and new is not None and first[1] is not None and new == first[1] + old[len(first[0]) :]

    return {old: new for old, new in prefixes.items() if not is_said(old, new)}


def _cut(name: str) -> tuple[str, str | None]:
    """`model.layers.{layer}.mlp.up.weight` → (`model.layers.`, `.mlp.up.weight`)."""
    head, found, tail = name.partition(LAYER)
    return (head, tail) if found else (name, None)


class _Rules:
    """Rules as they are collected from pairs."""

    def __init__(self, names: Sequence[str], is_short: bool) -> None:
        """Rules for a checkpoint with such names."""
        self._heads = [name for name in names if _cut(name)[1] is None]
        self._tails = [tail for tail in (_cut(name)[1] for name in names) if tail]
        self._is_short = is_short
        self.regex: dict[str, str] = {}
        self.substr: dict[str, str | None] = {}
        self.prefix: dict[str, str | None] = {}

    def add(self, pair: Pair) -> None:
        """The rules of one pair."""
        old_head, old_tail = _cut(pair.old)
        new_head, new_tail = _cut(pair.new)
        if old_tail is None or new_tail is None:
            old, new = self._shortened(pair.old, pair.new)
            if old != new:
                self.prefix[old] = new
            return
        if old_head != new_head:
            self.prefix[old_head] = new_head
        for old_part, new_part in zip(old_tail.split(EXPERT), new_tail.split(EXPERT), strict=True):
            old, new = self._shortened(old_part, new_part)
            if old != new and self._is_elsewhere(old):
                self.regex[f"^({re.escape(old_head)}\\d+){re.escape(old)}"] = f"\\1{new}"
            elif old != new:
                self.substr[old] = new

    def _shortened(self, old: str, new: str) -> tuple[str, str]:
        return _without_common_end(old, new) if self._is_short else (old, new)

    def _is_elsewhere(self, old: str) -> bool:
        """Whether names have the text at other places than directly after the layer's number."""
        others = (*self._heads, *(tail[1:] for tail in self._tails))
        return any(old in other for other in others) and any(tail.startswith(old) for tail in self._tails)


def _without_common_end(old: str, new: str) -> tuple[str, str]:
    """Both names without the components that they share at the end, down to one whole component."""
    old_parts, new_parts = old.split("."), new.split(".")
    shared = 0
    most = min(len(old_parts), len(new_parts)) - 1
    while shared < most and old_parts[-1 - shared] == new_parts[-1 - shared]:
        shared += 1
    if shared == 0 or old == new:
        return old, new
    while shared > 0 and not "".join(old_parts[:-shared]):
        shared -= 1
    return ".".join(old_parts[:-shared]) + ".", ".".join(new_parts[:-shared]) + "."


def _stacked(pairs: Sequence[Pair], renaming: Mapper, is_short: bool) -> Mapping[str, tuple[str, Shard]]:
    """`.q_proj` → (`.qkv_proj`, `q`); the parent's name is added where the short form meets other names."""
    rules: dict[str, tuple[str, Shard]] = {}
    others = [renaming.map(old) for pair in pairs if pair.final[1] is None for old, _ in pair.samples()]
    untouched = [mapped[0] for mapped in others if mapped]
    for pair in pairs:
        name, shard = pair.final
        if shard is None:
            continue
        part, fused = pair.place.name.split(".")[:-1], name.split(".")[:-1]
        short = f".{part[-1]}."
        depth = 1 if is_short and not any(short in other for other in untouched) else 2
        rules["".join(f".{word}" for word in part[-depth:])] = ("".join(f".{word}" for word in fused[-depth:]), shard)
    return rules
