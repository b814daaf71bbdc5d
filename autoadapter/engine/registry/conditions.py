"""When a row of data speaks of a model: conditions of a closed set, all of which must hold."""

from pydantic import Field

from autoadapter.artifacts import Frozen

Scalar = bool | int | float | str


class Condition(Frozen):
    """What is left out is not asked."""

    since: str | None = None
    """First vLLM release that the row speaks of."""
    until: str | None = None
    """First vLLM release that it speaks of no more."""
    platforms: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    model_types: tuple[str, ...] = ()
    """Of the wrapper or of the language model."""
    not_model_types: tuple[str, ...] = ()
    state: bool | None = None
    """Whether the model has recurrent layers."""
    state_kinds: tuple[str, ...] = ()
    quantizations: tuple[str, ...] = ()
    """vLLM's words: `awq`, `modelopt`."""
    served_dtypes: tuple[str, ...] = ()
    tied: bool | None = None
    remote_code: bool | None = None
    """Whether config.json has an auto_map."""
    keys: tuple[str, ...] = ()
    """config.json has one of them, and not as null."""
    missing: tuple[str, ...] = ()
    """config.json has none of them."""
    other_than: dict[str, Scalar] = Field(default_factory=dict)
    """Key that is there → a value that it does not have."""
    unequal: dict[str, str] = Field(default_factory=dict)
    """Key that is there → another key of another value."""
    several: tuple[str, ...] = ()
    """A list of layers under one of these keys that are not all alike."""
    tokenizer_classes: tuple[str, ...] = ()
    """`tokenizer_class` of tokenizer_config.json."""
    saved_since: str | None = None
    """First version of transformers that wrote config.json (`transformers_version`)."""
    saved_until: str | None = None
    """First version of transformers that did not."""
