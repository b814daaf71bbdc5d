"""Modules that a config excludes from quantization and that are stored quantized nonetheless."""

import re
from collections.abc import Iterable
from fnmatch import translate

from autoadapter.analyze.headers.checkpoint import Checkpoint
from autoadapter.analyze.quantization.patterns import Pattern, UnreadableError, read_pattern

QUANTIZED = re.compile(
    r"^(.+)\.(weight_scale(?:_2|_inv)?|input_scale|weight_packed|weight_global_scale|qweight|qzeros|g_idx)$"
)
REGULAR = "re:"
EXPERT = re.compile(r"\.experts\.\d+\.")
MOST_STEPS = 20_000_000
"""Modules times patterns; beyond it only exact names are looked up."""


def quantized_modules(checkpoint: Checkpoint) -> dict[str, list[str]]:
    """Module → its tensors that only a quantized module has. Experts of a layer count as one module."""
    found: dict[str, list[str]] = {}
    for kind, members in checkpoint.kinds.items():
        if QUANTIZED.match(kind) is None:
            continue
        for info in members:
            module = info.name.rsplit(".", 1)[0]
            key = EXPERT.sub(".experts.0.", module) if ".experts." in module else module
            found.setdefault(key, []).append(info.name)
    return found


def excluded_but_quantized(checkpoint: Checkpoint, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Names of tensors that give quantized modules away although a pattern excludes them, kind by kind."""
    if not patterns:
        return ()
    modules = quantized_modules(checkpoint)
    plain = {pattern for pattern in patterns if not _is_wild(pattern)}
    wild = _joined(pattern for pattern in patterns if _is_wild(pattern))
    small = wild is not None and len(modules) * len(patterns) <= MOST_STEPS
    automata = _automata(patterns, sum(map(len, modules)))
    excluded = (
        tensors
        for module, tensors in modules.items()
        if _named(module, plain)
        or (small and wild is not None and wild.match(module))
        or any(automaton.matches(module) for automaton in automata)
    )
    return tuple(tensor for tensors in excluded for tensor in tensors)


def unread_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Regular expressions that say more than is read here; what they exclude is not compared with the tensors."""
    return tuple(pattern for pattern in patterns if pattern.startswith(REGULAR) and _automaton(pattern) is None)


def _automata(patterns: tuple[str, ...], signs: int) -> list[Pattern]:
    """Regular expressions of the safe subset; none of them where the names are too many.

    Args:
        patterns: of the config.
        signs: length of all names together; each costs a step for every state.
    """
    found = [automaton for pattern in patterns if (automaton := _automaton(pattern)) is not None]
    return found if signs * sum(len(automaton.states) for automaton in found) <= MOST_STEPS else []


def _automaton(pattern: str) -> Pattern | None:
    try:
        return read_pattern(pattern.removeprefix(REGULAR)) if pattern.startswith(REGULAR) else None
    except UnreadableError:
        return None


def _is_wild(pattern: str) -> bool:
    return pattern.startswith(REGULAR) or any(sign in pattern for sign in "*?[")


def _named(module: str, plain: set[str]) -> bool:
    """The module, a parent of it, or its last parts: `lm_head`, `model.layers.0.mlp`, `mlp.gate`."""
    parts = module.split(".")
    heads = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
    tails = (".".join(parts[start:]) for start in range(1, len(parts)))
    return any(name in plain for name in heads) or any(name in plain for name in tails)


def _joined(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """Shell patterns as one expression. Regular expressions of the checkpoint are not run: see `patterns.py`."""
    shells = [translate(pattern) for pattern in patterns if not pattern.startswith(REGULAR)]
    return re.compile("|".join(shells)) if shells else None
