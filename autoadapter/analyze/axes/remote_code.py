"""Code that the checkpoint brings along. It is listed, never imported."""

from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.artifacts.model_profile import RemoteCode


def read_remote_code(evidence: Evidence) -> Reading:
    """`auto_map` of config and tokenizer, and the Python files beside them; None without an `auto_map`."""
    auto_map: dict[str, str] = {}
    for document in (evidence.json("tokenizer_config.json"), evidence.root.data):
        entries = document.get("auto_map")
        for name, target in entries.items() if isinstance(entries, dict) else ():
            first = next((item for item in target if isinstance(item, str)), "") if isinstance(target, list) else target
            auto_map[name] = str(first)
    if not auto_map:
        return Reading("remote_code", None, {"": evidence.root.source("auto_map")})
    files = tuple(name for name in evidence.repository.files() if name.endswith(".py"))
    return Reading("remote_code", RemoteCode(auto_map=auto_map, files=files), {"auto_map": "auto_map"})
