"""Names of modules against the lists and patterns of quantization configs."""

import fnmatch
import re
from collections.abc import Iterable
from functools import lru_cache

WRAPPERS = re.compile(r"^(?:(?:model|language_model|text_model|backbone|transformer|decoder|thinker|llm)\.)+(?=[^.])")
"""What stands before the layers, differently in a checkpoint, in transformers and in vLLM."""
REGEX = "re:"
PREFIXES = ("", "model.", "language_model.model.", "model.language_model.", "backbone.")
"""Tried before a name for a regular expression, which may speak of any of them."""
MOST_PATTERN = 300
MOST_WILDCARDS = 3
REPEATED_GROUP = re.compile(r"\)[*+{]")
WILDCARD = re.compile(r"(?<!\\)[.\]][*+{]|\\[wWsSD][*+{]")
"""Longer expressions than any real one, and those whose search could take for ever, are left out."""


class Modules:
    """A set of modules: names, beginnings, globs and `re:` expressions.

    A plain name means the module and all below it; a short one (`lm_head`, `gate`) means every module of that name. A
    name is compared without the wrappers that stand before the layers.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        """Sort the patterns by kind."""
        expressions: list[str] = []
        globs: list[str] = []
        self._names: set[str] = set()
        for pattern in patterns:
            if pattern.startswith(REGEX):
                expressions.append(pattern.removeprefix(REGEX))
            elif any(letter in pattern for letter in "*?["):
                globs.append(_glob(WRAPPERS.sub("", pattern)))
            else:
                self._names.add(WRAPPERS.sub("", pattern))
        self._globs = re.compile("|".join(globs)) if globs else None
        self._expressions = [compiled for text in expressions if (compiled := _compiled(text)) is not None]

    def match(self, module: str) -> bool:
        """Whether the set has a module, named from its layer on: `layers.3.mlp.gate`."""
        if self._names and self._named(module):
            return True
        if self._globs is not None and self._globs.match(module):
            return True
        return any(expression.match(prefix + module) for expression in self._expressions for prefix in PREFIXES)

    def _named(self, module: str) -> bool:
        parts = module.split(".")
        beginnings = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
        return not self._names.isdisjoint(beginnings) or not self._names.isdisjoint(parts)


def _glob(pattern: str) -> str:
    """A glob for the module and all below it."""
    return f"(?:{fnmatch.translate(pattern)}|{fnmatch.translate(pattern + '.*')})"


@lru_cache(maxsize=256)
def _compiled(text: str) -> re.Pattern[str] | None:
    """None for what is no expression; those of a checkpoint are data, so what they may cost is bounded."""
    if len(text) > MOST_PATTERN or REPEATED_GROUP.search(text) or len(WILDCARD.findall(text)) > MOST_WILDCARDS:
        return None
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return None
