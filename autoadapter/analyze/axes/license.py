"""The license, from where a model states it."""

import re

import yaml

from autoadapter.analyze.reading import Evidence, Reading

FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*(\n|\Z)", re.DOTALL)


def read_license(evidence: Evidence) -> Reading:
    """The model card's `license`, GGUF's `general.license`, or None."""
    card = evidence.repository.card_license()
    if card:
        return Reading("license", card, {"": "the model card on the Hub"})
    stated = _front_matter(evidence.text("README.md") or "")
    if stated:
        return Reading("license", stated, {"": "README.md:license"})
    inner = evidence.checkpoint.metadata.get("general.license")
    if isinstance(inner, str) and inner:
        return Reading("license", inner, {"": "GGUF general.license"})
    return Reading("license", None, {"": "not stated"})


def _front_matter(text: str) -> str | None:
    match = FRONT_MATTER.match(text)
    try:
        card = yaml.safe_load(match[1]) if match else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(card, dict):
        return None
    name, other = card.get("license"), card.get("license_name")
    return str(other) if name == "other" and other else str(name) if isinstance(name, str) else None
