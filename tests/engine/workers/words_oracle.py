"""Worker: what transformers itself answers about names, tokenizers and chat templates. Run in the engine's interpreter.

Request: `names` (pairs of module and name), `folders` (tokenizers), `text`, `chats` (template and variables).
Result: `names` (importable or not), `ids` (of the text, one list a folder), `rendered`, `model_types`.
"""

import importlib
import json
import sys
from pathlib import Path

from transformers import CONFIG_MAPPING, AutoTokenizer
from transformers.utils.chat_template_utils import _compile_jinja_template


def importable(module: str, name: str | None) -> bool:
    """Whether `from module import name` would work."""
    try:
        found = importlib.import_module(module)
        if name is not None and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True


def main() -> None:
    """Answer the request."""
    request = json.loads(Path(sys.argv[1]).read_text())
    messages = [{"role": "user", "content": "hello", "reasoning_content": "r"}]
    common = {"messages": messages, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
    answer = {
        "names": [importable(module, name) for module, name in request["names"]],
        "ids": [AutoTokenizer.from_pretrained(folder)(request["text"])["input_ids"] for folder in request["folders"]],
        "rendered": [_compile_jinja_template(text).render(**common, **more) for text, more in request["chats"]],
        "model_types": sorted(CONFIG_MAPPING.keys()),
    }
    Path(sys.argv[2]).write_text(json.dumps(answer))


main()
