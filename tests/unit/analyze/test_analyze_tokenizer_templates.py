"""What a chat template can do, read from its syntax tree: each fixture is the part of a real format that matters."""

import re

import pytest

from autoadapter.analyze.tokenizer.template_traits import read_template
from autoadapter.artifacts.model_profile import TemplateTraits

MESSAGES = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' }}{% endfor %}"
ASKED = "{% if add_generation_prompt %}"
END = "{% endif %}"


def traits(text: str, bos: str | None = "<s>") -> TemplateTraits:
    found, problem = read_template(text, bos)
    assert problem is None
    assert found is not None
    return found


FORCED = {
    "r1: after the role": MESSAGES + ASKED + "{{'<|Assistant|><think>\\n'}}" + END,
    "r1: unless a tool answered": "{% set ns = namespace(is_tool=false) %}"
    "{% for m in messages %}{% if m.role == 'tool' %}{% set ns.is_tool = true %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt and not ns.is_tool %}{{'<|Assistant|><think>\\n'}}{% endif %}",
    "qwen3.5: unless it is switched off": MESSAGES + ASKED + "{{ '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- else %}{{- '<think>\\n' }}{%- endif %}" + END,
    "nemotron: on by a default of its own": "{% set enable_thinking = enable_thinking if enable_thinking is defined "
    "else True %}" + MESSAGES + ASKED + "{% if enable_thinking %}{{ '<think>\\n' }}{% else %}{{ '<think></think>' }}"
    "{% endif %}" + END,
    "nemotron nano: by the words of a message": "{% set ns = namespace(enable_thinking=true) %}{% for m in messages %}"
    "{% if '/no_think' in m.content %}{% set ns.enable_thinking = false %}{% endif %}{% endfor %}"
    + ASKED
    + "{% if ns.enable_thinking is defined and ns.enable_thinking is false %}{{- '<think></think>' -}}"
    "{% else %}{{- '<think>\\n\\n' -}}{% endif %}" + END,
    "minimax: joined by ~": MESSAGES + ASKED + "{{- ']~b]ai' ~ '\\n' ~ '<think>' ~ '\\n' }}" + END,
    "inside the loop, behind the last message": "{% for m in messages %}{{ m.content }}"
    "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\\n<think>\\n' }}{% endif %}{% endfor %}",
    "a tag in a variable": "{% set begin = '<seed:think>' %}" + MESSAGES + ASKED + "{{ begin }}" + END,
    "plain text between the tags": MESSAGES + ASKED + "<|assistant|>\n<think>\n" + END,
    "mistral's brackets": MESSAGES + ASKED + "{{ '[/INST][THINK]' }}" + END,
    "default filter": MESSAGES + ASKED + "{% if enable_thinking | default(true) %}<think>{% endif %}" + END,
    "elif": MESSAGES + ASKED + "{% if enable_thinking is defined and not enable_thinking %}a{% elif true %}<think>"
    "{% endif %}" + END,
}


@pytest.mark.parametrize("text", FORCED.values(), ids=FORCED)
def test_a_generation_prompt_that_opens_thinking(text: str) -> None:
    found = traits(text)
    assert found.forced_think
    assert found.thinking
    assert found.think_tag


SWITCHED = {
    "deepseek v3.1": (
        "{% if not thinking is defined %}{% set thinking = false %}{% endif %}" + MESSAGES + ASKED
        + "{{'<|Assistant|>'}}{% if not thinking %}{{'</think>'}}{% else %}{{'<think>'}}{% endif %}" + END,
        "thinking",
    ),
    "condition in the output": (
        MESSAGES + ASKED + "{{ 'a' + ('<think>' if enable_thinking else '') }}" + END,
        "enable_thinking",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "switch"), SWITCHED.values(), ids=SWITCHED)
def test_thinking_that_a_request_switches_on(text: str, switch: str) -> None:
    found = traits(text)
    assert (found.forced_think, found.forced_think_switched, found.thinking_switch) == (False, True, switch)
    assert switch in found.variables


FREE = {
    "qwen3: closed when off, nothing when on": MESSAGES + ASKED + "{{ '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
    + END,
    "glm-4.5": MESSAGES + ASKED + "<|assistant|>{{- '\\n<think></think>' if (enable_thinking is defined and not "
    "enable_thinking) else '' -}}" + END,
    "thoughts of earlier turns alone": "{% for m in messages %}{{ '<think>' + m.reasoning_content + '</think>' }}"
    "{% endfor %}" + ASKED + "<|assistant|>" + END,
    "an opened tag that ends no prompt": "{{ '<think>' }}" + MESSAGES + ASKED + "<|assistant|>" + END,
}


@pytest.mark.parametrize("text", FREE.values(), ids=FREE)
def test_thinking_that_no_prompt_opens(text: str) -> None:
    found = traits(text)
    assert found.thinking
    assert not found.forced_think
    assert not found.forced_think_switched


def test_a_template_without_thinking() -> None:
    found = traits(MESSAGES + ASKED + "{{ '<|im_start|>assistant\\n' }}" + END)
    assert not found.thinking
    assert found.think_tag is None
    assert found.thinking_switch is None
    assert found.generation_prompt
    assert found.system_role
    assert not (found.tools or found.tool_calls or found.tool_role or found.modalities or found.variables)


def test_tools() -> None:
    found = traits(
        "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}{% for m in messages %}"
        "{% if m.role == 'tool' %}<tool_response>{{ m.content }}{% elif m.tool_calls %}"
        "{% for call in m.tool_calls %}{{ call.function.name }}{% endfor %}{% endif %}{% endfor %}"
    )
    assert (found.tools, found.tool_calls, found.tool_role) == (True, True, True)


def test_tools_are_not_a_word_in_a_sentence() -> None:
    found = traits("{{ 'You have no tools, and no tool_calls.' }}" + MESSAGES)
    assert (found.tools, found.tool_calls, found.tool_role) == (False, False, False)


SYSTEM = {
    "named": ("{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}", True),
    "any role is written": (MESSAGES, True),
    "llama 3: written by way of a variable": (
        "{% for m in messages %}{% set c = '<|h|>' + m['role'] + m['content'] %}{{ c }}{% endfor %}",
        True,
    ),
    "gemma 2 refuses": (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        + MESSAGES,
        False,
    ),
    "mistral knows two roles": (
        "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% elif m['role'] == 'assistant' %}"
        "{{ m['content'] }}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}"
        "{% endfor %}",
        False,
    ),
}


@pytest.mark.parametrize(("text", "takes"), SYSTEM.values(), ids=SYSTEM)
def test_system_role(text: str, takes: bool) -> None:
    assert traits(text).system_role is takes


BOS = {
    "variable": ("{{ bos_token }}" + MESSAGES, "<s>", True),
    "by way of another": ("{% set c = bos_token + 'x' %}{{ c }}", "<s>", True),
    "its text": ("<|begin|>" + MESSAGES, "<|begin|>", True),
    "its text in an expression": ("{{ '<|begin|>user' }}", "<|begin|>", True),
    "asked for alone": ("{% if bos_token %}x{% endif %}{{ 'a' if bos_token is defined else 'b' }}", "<s>", False),
    "absent": (MESSAGES, "<s>", False),
    "the tokenizer has none": (MESSAGES, None, False),
}


@pytest.mark.parametrize(("text", "bos", "emits"), BOS.values(), ids=BOS)
def test_bos_that_the_template_writes(text: str, bos: str | None, emits: bool) -> None:
    assert traits(text, bos).emits_bos is emits


def test_modalities() -> None:
    found = traits(
        "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' or 'image_url' in c %}<|image_pad|>"
        "{% elif c['type'] in ['video', 'video_url'] %}<|video_pad|>{% endif %}{% endfor %}{% endfor %}"
    )
    assert found.modalities == ("image", "video")


def test_variables_that_no_server_passes() -> None:
    text = (
        "{% if custom_tools is defined %}{% set tools = custom_tools %}{% endif %}{% set ns = namespace(a=1) %}"
        "{{ strftime_now('%d') }}{{ date_string }}{% for m in messages %}{{ loop.index }}{{ m.x }}{% endfor %}"
        "{{ 'Reasoning: ' + reasoning_effort }}{% macro f(p) %}{{ p }}{% endmacro %}{{ f(1) }}"
    )
    found = traits(text)
    assert found.variables == ("custom_tools", "date_string", "reasoning_effort")
    assert found.thinking_switch == "reasoning_effort"
    assert found.tools


def test_generation_blocks_and_loop_controls_are_read() -> None:
    found = traits(
        "{% for m in messages %}{% if not m %}{% continue %}{% endif %}{% generation %}{{ '<think>' }}"
        "{% endgeneration %}{% break %}{% endfor %}"
    )
    assert found.think_tag == "<think>"


PROBLEMS = {
    "syntax": ("{% if %}", "is not valid Jinja: Expected an expression, got 'end of statement block' (line 1)"),
    "unclosed": ("{% for m in messages %}", "is not valid Jinja"),
    "unknown tag": ("{% evil %}", "is not valid Jinja: Encountered unknown tag 'evil'"),
    "too long": ("x" * 300_000, "has 300000 characters"),
    "too deep": ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "is nested too deep"),
    "too many branches": ("{% if x %}" + "{% elif x %}" * 5000 + "{% endif %}", "is nested too deep"),
    "too large a number": ("{{ " + "9" * 5000 + " }}", "is nested too deep or holds a number too long"),
}


@pytest.mark.parametrize(("text", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_templates_that_cannot_be_read(text: str, problem: str) -> None:
    found, why = read_template(text, "<s>")
    assert found is None
    assert re.match(re.escape(problem), why or "")


def test_nothing_is_rendered() -> None:
    """What would never end, or take all memory, is a tree like any other."""
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{{ 'x' * 10 ** 9 }}{% endfor %}{% endfor %}"
    assert traits(endless + "{{ cycler.__init__.__globals__ }}" + MESSAGES).system_role


def test_many_branches_stay_cheap() -> None:
    """Paths share their scope and ends: 200 unknown conditions are 200 steps, not 2 to the 200th."""
    branches = "".join(f"{{% if m{number} %}}a{number}{{% else %}}b{{% endif %}}" for number in range(200))
    found = traits(branches + ASKED + "<think>" + END)
    assert found.forced_think
