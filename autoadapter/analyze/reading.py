"""What an axis is given, and what it gives back."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from autoadapter.analyze.config import Config, parse_object
from autoadapter.analyze.headers.checkpoint import Checkpoint
from autoadapter.analyze.sources import Repository
from autoadapter.analyze.text import json_word
from autoadapter.artifacts import Finding, Frozen
from autoadapter.engine.target import EngineTarget
from autoadapter.errors import BrokenCheckpointError


@dataclass(frozen=True)
class Evidence:
    """A model as its files describe it. Nothing of it has been run."""

    root: Config
    """The whole config.json, or what GGUF metadata says in its words."""
    language: Config
    """The part of it that describes the language model; the same object for plain models."""
    checkpoint: Checkpoint
    repository: Repository
    side_files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    """Small files that axes read: tokenizers, templates, generation config, README."""
    engine: EngineTarget | None = None
    """The installed vLLM that the profile speaks of; None when none of that version is here."""
    _parsed: dict[str, dict[str, JsonValue]] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @property
    def model_type(self) -> str:
        """Of the language model; empty when the config names none."""
        return self.language.text("model_type") or self.root.text("model_type") or ""

    @property
    def architecture(self) -> str:
        """The first entry of `architectures`, or of its absence an empty text.

        Raises:
            BrokenCheckpointError: it is there and is not a list of texts.
        """
        names = self.root.texts("architectures") or ()
        if not names and (said := self.root.get("architectures")):
            problem = f"architectures is {json_word(said)}, not a list of class names"
            raise BrokenCheckpointError(self.root.file, problem, hint="Mend architectures in the file.")
        return names[0] if names else ""

    def json(self, name: str) -> dict[str, JsonValue]:
        """A side file as a JSON object, parsed once and not to be changed; empty when the file is absent.

        Raises:
            BrokenCheckpointError: it is there and is not a JSON object.
        """
        if name not in self.side_files:
            return {}
        if name not in self._parsed:
            self._parsed[name] = parse_object(self.side_files[name], self.repository.label(name))
        return self._parsed[name]

    def text(self, name: str) -> str | None:
        """A side file as text; None when absent."""
        data = self.side_files.get(name)
        return None if data is None else data.decode("utf-8", errors="replace")


@dataclass(frozen=True)
class Reading:
    """One field of the profile, with where its parts were read."""

    field: str
    """Name in `ModelProfile`."""
    value: Frozen | int | str | None
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Path below `field` → where it was read; the empty path is the field itself."""
    findings: tuple[Finding, ...] = ()

    def located(self) -> dict[str, str]:
        """`sources` with full paths: `attention.head_dim`."""
        return {f"{self.field}.{path}" if path else self.field: where for path, where in self.sources.items()}


class Axis(Protocol):
    """A member of `AXES`: reads one field of the profile from the evidence."""

    def __call__(self, evidence: Evidence) -> Reading:
        """Read the field.

        Raises:
            BrokenCheckpointError: a file says something that cannot be.
        """
