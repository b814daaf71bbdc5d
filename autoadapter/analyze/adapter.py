"""A folder that holds a LoRA adapter and no model: which base model it belongs to."""

import json
import shlex
from collections.abc import Callable

from autoadapter.analyze.config import parse_object
from autoadapter.errors import BrokenCheckpointError, UserError

ADAPTER_CONFIG = "adapter_config.json"
LONGEST_NAME = 200


def adapter_error(location: str, read: Callable[[str], bytes]) -> UserError:
    """What to tell of an adapter's folder.

    Args:
        location: the folder or Hub id.
        read: gives a file of it.
    """
    try:
        document = parse_object(read(ADAPTER_CONFIG), f"{location}/{ADAPTER_CONFIG}")
    except (BrokenCheckpointError, OSError):
        document = {}
    said, kind = document.get("base_model_name_or_path"), document.get("peft_type")
    kind = kind[:20] if isinstance(kind, str) else "LoRA"
    problem = f"{location} is an adapter ({kind}, {ADAPTER_CONFIG}) and no model: it holds no config.json"
    if not isinstance(said, str) or not said.strip():
        return UserError(f"{problem}, and does not name its base model.", hint="Name the model that it was trained on.")
    base = said.strip()[:LONGEST_NAME]
    shown = base if base.isprintable() else json.dumps(base)
    serve = "then serve both with --engine-arg enable-lora=true"
    return UserError(
        f"{problem}; its base model is {shown}.",
        hint=f"autoadapter analyze {shlex.quote(base)}; {serve} (--enable-lora)",
    )
