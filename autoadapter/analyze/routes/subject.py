"""What a verdict speaks of: a model as its files describe it, and the engine that is to serve it."""

import shlex
from dataclasses import dataclass
from typing import Literal

from autoadapter.analyze.reading import Evidence
from autoadapter.artifacts.model_profile import AttentionTraits, QuantizationTraits, StateTraits

ModelImpl = Literal["auto", "transformers", "generated"]
"""The route asked for: `transformers` forces vLLM's Transformers modeling backend (`--model-impl`), `generated` the
model code that AutoAdapter writes; `auto` is the first that serves."""


@dataclass(frozen=True)
class Target:
    """The engine that the verdict speaks of."""

    vllm_version: str
    platform: Literal["cpu", "cuda"]
    served_dtype: str
    model_impl: ModelImpl = "auto"
    trusts_code: bool = False
    """The user accepts to run the checkpoint's own code."""


@dataclass(frozen=True)
class Traits:
    """What the verdict needs of the axes."""

    attention: AttentionTraits
    state: StateTraits | None
    quantization: QuantizationTraits | None
    tied: bool = False


@dataclass(frozen=True)
class Subject:
    """Everything that a row of data may ask about."""

    evidence: Evidence
    traits: Traits
    target: Target
    chosen: str | None = None
    """The architecture that vLLM takes, where config.json names several; None for its first."""

    @property
    def again(self) -> str:
        """The command that analyzes this model; options may follow."""
        return f"autoadapter analyze {self.location}"

    @property
    def location(self) -> str:
        """The model as a command line names it."""
        return shlex.quote(self.evidence.repository.location)

    @property
    def name(self) -> str:
        """The architecture that is judged."""
        return self.evidence.architecture if self.chosen is None else self.chosen

    @property
    def model_types(self) -> frozenset[str]:
        """Of the wrapper and of the language model."""
        said = (self.evidence.root.text("model_type"), self.evidence.language.text("model_type"))
        return frozenset(text for text in said if text)
