"""Which architectures a release of vLLM serves. The data is written by `scripts/generate_registry.py`."""

import json
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from autoadapter.engine.versions import release

DATA = Path(__file__).with_name("architectures.json")
TEXT, MULTIMODAL = "_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS"
NATIVE = (TEXT, MULTIMODAL)
BACKEND = ("_TRANSFORMERS_SUPPORTED_MODELS", "_TRANSFORMERS_BACKEND_MODELS")
SPECULATIVE = ("_SPECULATIVE_DECODING_MODELS",)
POOLING = (
    "_EMBEDDING_MODELS",
    "_LATE_INTERACTION_MODELS",
    "_REWARD_MODELS",
    "_TOKEN_CLASSIFICATION_MODELS",
    "_SEQUENCE_CLASSIFICATION_MODELS",
)
QUANTIZATION, DEPRECATED = "QuantizationMethods", "DEPRECATED_QUANTIZATION_METHODS"
DROPPED, PLUGINS = "_PREVIOUSLY_SUPPORTED_MODELS", "_OOT_SUPPORTED_MODELS"
MODELS = (*NATIVE, *BACKEND, *SPECULATIVE, *POOLING)
FILE = "model_executor/models/registry.py"


class Row(NamedTuple):
    """An entry of one of vLLM's tables, and the releases that have it."""

    table: str
    """vLLM's own name: `_TEXT_GENERATION_MODELS`."""
    name: str
    value: str = ""
    """Last version of a dropped architecture, address of a plugin; else empty."""
    since: str | None = None
    """First release that has it; None when the oldest known release has it."""
    until: str | None = None
    """First release without it; None when the newest known release has it."""


class Release(NamedTuple):
    """A release that the data knows."""

    vllm: str
    transformers: str
    """Versions that its distribution asks for: `>=5.5.3`."""


class _Table(NamedTuple):
    releases: tuple[Release, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Registry:
    """Architectures of one vLLM release, by how it serves them."""

    vllm_version: str
    transformers: str
    """Versions of transformers that it asks for."""
    tables: dict[str, dict[str, str]]
    """vLLM's table → architecture → value."""

    def _names(self, *tables: str) -> frozenset[str]:
        return frozenset(name for table in tables for name in self.tables[table])

    @property
    def source(self) -> str:
        """The file that says so."""
        return f"vLLM {self.vllm_version} {FILE}"

    @cached_property
    def text_generation(self) -> frozenset[str]:
        """Served by a class of vLLM's own, text alone."""
        return self._names(TEXT)

    @cached_property
    def multimodal(self) -> frozenset[str]:
        """Served by a class of vLLM's own, with other modalities."""
        return self._names(MULTIMODAL)

    @cached_property
    def transformers_backend(self) -> frozenset[str]:
        """Named for the Transformers modeling backend."""
        return self._names(*BACKEND)

    @cached_property
    def served(self) -> frozenset[str]:
        """Everything that generates text by an entry of the registry."""
        return self._names(*NATIVE, *BACKEND)

    @cached_property
    def pooling(self) -> frozenset[str]:
        """Served to embed, score or classify, and not to generate."""
        return self._names(*POOLING) - self._names(*NATIVE)

    @cached_property
    def speculative(self) -> frozenset[str]:
        """Draft heads."""
        return self._names(*SPECULATIVE)

    @cached_property
    def quantizations(self) -> frozenset[str]:
        """Methods that `--quantization` and a checkpoint's `quant_method` may name."""
        return self._names(QUANTIZATION)

    @cached_property
    def deprecated_quantizations(self) -> frozenset[str]:
        """Those that need `--allow-deprecated-quantization`."""
        return self._names(DEPRECATED)

    def quantization_until(self, method: str) -> str | None:
        """The last known release before this one that had a method; None when none had or this one has it."""
        return _last_known(method, (QUANTIZATION,), self.vllm_version)

    @property
    def dropped(self) -> dict[str, str]:
        """Architecture → the last version that served it, as vLLM itself says."""
        return self.tables[DROPPED]

    @property
    def plugins(self) -> dict[str, str]:
        """Architecture → where its out-of-tree plugin lives."""
        return self.tables[PLUGINS]

    def line(self, name: str) -> str:
        """The entry that proves what the registry says of a name, or that there is none."""
        table = next((table for table in (*MODELS, DROPPED, PLUGINS) if name in self.tables[table]), None)
        return f'{self.source}: {table}["{name}"]' if table else f'{self.source}: no "{name}" in _VLLM_MODELS'

    def served_until(self, architecture: str, version: str) -> str | None:
        """The last version that served a dropped architecture; None unless it is gone in `version`."""
        last = self.dropped.get(architecture)
        if last is None and architecture not in self.served:
            last = _last_known(architecture, (*NATIVE, *BACKEND), self.vllm_version)
        return last if last is not None and release(last) < release(version) else None

    def spelt_otherwise(self, architecture: str) -> str | None:
        """A served name that differs in capitals alone: `PhimoeForCausalLM` is `PhiMoEForCausalLM` here."""
        folded = architecture.casefold()
        return next((name for name in sorted(self.served) if name.casefold() == folded and name != architecture), None)

    def related(self, architecture: str) -> str | None:
        """A served name with one word more or less: `MiniMaxM3SparseForCausalLM` for `MiniMaxM3ForCausalLM`.

        A word is four letters or more and no digit, since `Zamba2` is not `Zamba` and `GPTNeoX` not `GPTNeo`.
        """
        if len(architecture) > LONGEST_NAME:
            return None
        own = _stem(architecture)
        for name in sorted(self.served):
            short, long = sorted((own, _stem(name)), key=len)
            if len(short) >= SHORTEST_STEM and long.startswith(short) and _WORD.fullmatch(long[len(short) :]):
                return name
        return None


SHORTEST_STEM, LONGEST_NAME = 6, 200
_WORD = re.compile(r"[A-Z]?[A-Za-z]{3,}")
_TASK = re.compile(r"(For[A-Z][A-Za-z]+|LMHeadModel|Model)$")


def _stem(architecture: str) -> str:
    return _TASK.sub("", architecture)


class RegistryMatch(NamedTuple):
    """The registry that stands for a version."""

    registry: Registry
    note: str | None
    """What to tell when it is of another version than asked for."""


@cache
def _table() -> _Table:
    data = json.loads(DATA.read_bytes())
    return _Table(
        tuple(Release(**entry) for entry in data["versions"]),
        tuple(Row(**entry) for entry in data["rows"]),
    )


def known_versions() -> tuple[str, ...]:
    """Releases that the data knows, ascending."""
    return tuple(entry.vllm for entry in _table().releases)


@cache
def _registry(version: str) -> Registry:
    number, bounds = release(version), {text: release(text) for text in known_versions()}
    tables: dict[str, dict[str, str]] = {table: {} for table in (*MODELS, DROPPED, PLUGINS, QUANTIZATION, DEPRECATED)}
    for row in _table().rows:
        if (row.since is None or bounds[row.since] <= number) and (row.until is None or number < bounds[row.until]):
            tables[row.table][row.name] = row.value
    asked = next(entry.transformers for entry in _table().releases if entry.vllm == version)
    return Registry(version, asked, tables)


def registry_for(version: str) -> RegistryMatch:
    """The registry of a vLLM version, or of the nearest known one that is not newer, and a note that says so.

    Raises:
        UserError: the text is no version.
    """
    known = known_versions()
    older = [entry for entry in known if release(entry) <= release(version)]
    chosen = older[-1] if older else known[0]
    if release(chosen) == release(version):
        return RegistryMatch(_registry(chosen), None)
    relation = "the nearest older one that is known" if older else "newer, because none that old is known"
    note = f"The architectures of vLLM {version} are judged by the registry of vLLM {chosen}, {relation}."
    return RegistryMatch(_registry(chosen), note)


def first_serving(architecture: str, version: str) -> Row | None:
    """The entry of the first release after `version` that generates text with an architecture."""
    rows = [row for row in _stretches(architecture, (*NATIVE, *BACKEND)) if row.since]
    later = [row for row in rows if release(row.since or "0") > release(version)]
    return min(later, key=lambda row: release(row.since or "0"), default=None)


def serving_version(architecture: str, version: str) -> str | None:
    """Another release that generates text with an architecture that `version` does not: the next later, else the last.

    None where no release is known to.
    """
    later = first_serving(architecture, version)
    return later.since if later else registry_for(version).registry.served_until(architecture, version)


def _stretches(name: str, tables: tuple[str, ...]) -> list[Row]:
    return [row for row in _table().rows if row.name == name and row.table in tables]


def _last_known(name: str, tables: tuple[str, ...], version: str) -> str | None:
    """The last release before `version` whose tables had a name; vLLM removes some without a word."""
    gone = [row.until for row in _stretches(name, tables) if row.until and release(row.until) <= release(version)]
    before = [entry for entry in known_versions() if gone and release(entry) < max(map(release, gone))]
    return before[-1] if before else None
