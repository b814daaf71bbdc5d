"""The license, from where a model states it."""

import re

import yaml

from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.analyze.text import whole_text

MOST_FRONT_MATTER = 64 * 1024
"""Characters; the longest cards on the Hub list a thousand datasets in less."""
FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*(\n|\Z)", re.DOTALL)


class _PlainLoader(yaml.SafeLoader):
    """Refuses aliases: a few lines of them stand for gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """A node, unless it is an alias."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)


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
    match = FRONT_MATTER.match(text[:MOST_FRONT_MATTER])
    try:
        card = _PlainLoader(match[1]).get_single_data() if match else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(card, dict):
        return None
    name, other = card.get("license"), card.get("license_name")
    stated = other if name == "other" and isinstance(other, str) and other else name
    return whole_text(stated) if isinstance(stated, str) else None
