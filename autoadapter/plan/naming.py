"""What clients call the model. A folder's name is outside text, and vLLM reads a leading dash as an option."""

import re

from autoadapter.artifacts import ModelProfile

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:/+@ -]{0,190}")


def served_name(profile: ModelProfile) -> str:
    """The model's own name where it is plain, else its slug."""
    name = profile.ref.name
    return name if _PLAIN.fullmatch(name) and name == name.strip() else profile.ref.slug
