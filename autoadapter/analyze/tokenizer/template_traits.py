"""What a chat template can do, from its syntax tree alone."""

import re

from jinja2 import nodes

from autoadapter.analyze.tokenizer.endings import endings
from autoadapter.analyze.tokenizer.expression import UNDEFINED, Value
from autoadapter.analyze.tokenizer.template_syntax import (
    assigned,
    attributes,
    compared,
    names,
    parse_template,
    texts,
    written,
)
from autoadapter.artifacts.model_profile import TemplateTraits

TOOL_VARIABLES = {"tools", "functions", "custom_tools", "available_tools", "xml_tools"}
TOOL_ROLES = {"tool", "ipython", "function", "observation", "tool_response", "tool_result", "tool_results"}
TOOL_CALLS = {"tool_calls", "tool_call", "function_call"}
MODALITIES = {
    "image": {"image", "image_url", "images"},
    "video": {"video", "video_url", "videos"},
    "audio": {"audio", "audio_url", "input_audio", "audios"},
}
PASSED = {
    "messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "bos_token", "eos_token",
    "pad_token", "unk_token", "sep_token", "cls_token", "mask_token", "additional_special_tokens",
    "raise_exception", "strftime_now", "namespace", "range", "loop", "dict", "lipsum", "cycler", "joiner", "caller",
    "varargs", "kwargs", "self",
}  # fmt: skip
"""What transformers passes, and what Jinja brings along."""
SWITCHES = (
    "enable_thinking", "thinking", "enable_reasoning", "reasoning", "use_thinking", "do_thinking", "thinking_mode",
    "reasoning_mode", "reasoning_effort", "reasoning_strategy", "thinking_budget", "think",
)  # fmt: skip
"""Variables that turn thinking on or off, or say how much of it; those of two values come first."""
OPENED = re.compile(
    r"(<(?:\w+:)?think(?:ing)?>|<thought>|<reasoning>|\[THINK\]|<\|START_THINKING\|>|<\|begin_of_thought\|>|◁think▷"
    r"|<\|?channel\|?>(?:analysis|thought)(?:<\|message\|>)?)\s*$"
)
"""An opened think tag at the end of a prompt, as the formats in use write it."""
TAG = re.compile(OPENED.pattern.removesuffix(r"\s*$"))
NO_SYSTEM = re.compile(r"system\b.*\b(?:not|n't)\b|\bnot?\b.*\bsystem", re.IGNORECASE | re.DOTALL)


def read_template(text: str, bos: str | None) -> tuple[TemplateTraits | None, str | None]:
    """Capabilities of a template's text; or None, and the end of a sentence that says why there are none."""
    tree = parse_template(text)
    if isinstance(tree, str):
        return None, tree
    try:
        return template_traits(tree, bos), None
    except RecursionError:
        return None, "is nested too deep to be followed"


def template_traits(tree: nodes.Template, bos: str | None) -> TemplateTraits:
    """Capabilities of a template.

    Args:
        tree: its syntax tree.
        bos: text of the BOS token, None when the tokenizer has none.

    Raises:
        RecursionError: it is nested deeper than Python can follow.
    """
    read, keys, asked = names(tree), attributes(tree), compared(tree)
    said = tuple(texts(tree))
    free = sorted((read - PASSED - assigned(tree)) | (read & set(SWITCHES) - PASSED))
    switch = next((name for name in SWITCHES if name in free), None)
    tag = next((found[1] for text in said if (found := TAG.search(text))), None)
    default, switched = _forced(tree, free, switch)
    return TemplateTraits(
        tools=bool(read & TOOL_VARIABLES),
        tool_calls=bool((keys | asked) & TOOL_CALLS),
        tool_role=bool(asked & TOOL_ROLES),
        system_role=_takes_system(tree, asked, said),
        generation_prompt="add_generation_prompt" in read,
        thinking=tag is not None or switch is not None or "reasoning_content" in keys,
        think_tag=tag,
        thinking_switch=switch,
        forced_think=default,
        forced_think_switched=switched,
        modalities=tuple(name for name, words in MODALITIES.items() if asked & words),
        emits_bos=_emits(tree, bos),
        variables=tuple(free),
    )


def _forced(tree: nodes.Template, free: list[str], switch: str | None) -> tuple[bool, bool]:
    """Whether the generation prompt ends in an opened think tag by default, and for one value of the switch."""
    unset: dict[str, Value] = dict.fromkeys(free, UNDEFINED)
    default = _ends_open(tree, unset)
    if switch is None or default:
        return default, default and switch is not None
    return False, any(_ends_open(tree, unset | {switch: value}) for value in (True, False))


def _ends_open(tree: nodes.Template, scope: dict[str, Value]) -> bool:
    """Whether asking for a generation prompt adds an end with an opened tag."""
    asked = endings(tree, scope | {"add_generation_prompt": True})
    added = asked - endings(tree, scope | {"add_generation_prompt": False})
    return any(OPENED.search(end) for end in added)


def _takes_system(tree: nodes.Template, asked: set[str], said: tuple[str, ...]) -> bool:
    """A template that names the role takes it unless it refuses; one that writes any role takes that one, too."""
    calls = (node for node in tree.find_all(nodes.Call) if isinstance(node.node, nodes.Name))
    refusals = [node for node in calls if isinstance(node.node, nodes.Name) and node.node.name == "raise_exception"]
    if any(NO_SYSTEM.search(text) for refusal in refusals for text in texts(refusal)):
        return False
    return bool(asked & {"system", "developer"}) or "system" in said or any(map(_is_role, written(tree)))


def _is_role(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Getattr):
        return node.attr == "role"
    return isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and node.arg.value == "role"


def _emits(tree: nodes.Template, bos: str | None) -> bool:
    """Whether the BOS token is written, by its variable or by its text."""
    for node in written(tree):
        if isinstance(node, nodes.Name) and node.name == "bos_token" and node.ctx == "load":
            return True
        text = node.data if isinstance(node, nodes.TemplateData) else getattr(node, "value", None)
        if bos and isinstance(node, nodes.Const | nodes.TemplateData) and isinstance(text, str) and bos in text:
            return True
    return False
