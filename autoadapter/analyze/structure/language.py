"""The language model's config with its family named."""

from autoadapter.analyze.config import Config
from autoadapter.analyze.reading import Evidence


def family_config(evidence: Evidence) -> Config:
    """The language model's config; where it names no `model_type`, as nested ones may not, with that of the whole."""
    config = evidence.language
    if config.text("model_type") is not None or not evidence.model_type:
        return config
    return config.with_values({"model_type": evidence.model_type})
