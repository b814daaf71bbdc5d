"""The words of a `vllm serve` command line, as recipes list them → options that a plan may take over."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from autoadapter.artifacts.serving_plan import SettingValue
from autoadapter.engine.flags import FlagRow, flag, value_problem
from autoadapter.errors import UserError

PLANNED = frozenset({
    "block-size", "cpu-offload-gb", "data-parallel-size", "data-parallel-size-local", "decode-context-parallel-size",
    "dtype", "enable-expert-parallel", "gpu-memory-utilization", "kv-cache-dtype", "kv-cache-memory-bytes",
    "max-model-len", "max-num-batched-tokens", "max-num-seqs", "num-gpu-blocks-override", "pipeline-parallel-size",
    "prefill-context-parallel-size", "quantization", "speculative-config", "swap-space", "tensor-parallel-size",
})  # fmt: skip
"""Options that memory and layout hang on: the planner says them."""
PLACE = frozenset({
    "api-key", "config", "download-dir", "distributed-executor-backend", "headless", "hf-token", "host", "master-addr",
    "master-port", "model", "nnodes", "node-rank", "port", "served-model-name", "uds",
})  # fmt: skip
"""Options that belong to the place of deployment or to the user."""
FILES = frozenset({"chat-template", "hf-config-path", "reasoning-parser-plugin", "tokenizer", "tool-parser-plugin"})
"""Options that name a file or another repository, which need not be there."""
TRUST = "trust-remote-code"
ENV_NAME = re.compile(r"VLLM_[A-Z0-9_]+")


class Parsed(NamedTuple):
    """What became of a list of words."""

    taken: tuple[tuple[str, SettingValue, str], ...]
    """(option or variable, value, key of the recipe)."""
    dropped: tuple[str, ...]
    ignored: tuple[str, ...]


def parse_args(words: list[str], key: str) -> Parsed:
    """`["--reasoning-parser", "qwen3"]` → options of vLLM's vocabulary that a plan may take.

    Args:
        words: as on a command line; `--name=value` and `--no-name` are understood.
        key: where in the recipe, for what is told.
    """
    taken: list[tuple[str, SettingValue, str]] = []
    dropped: list[str] = []
    ignored: list[str] = []
    for name, values in _options(words):
        row = _row(name)
        if row is None:
            dropped.append(f"{key}: --{name} is not an option of vLLM")
        elif (reason := _left_out(row.name)) is not None:
            ignored.append(f"{key}: --{row.name}: {reason}")
        elif isinstance(value := _value(row, name, values), _Problem):
            dropped.append(f"{key}: {value.text}")
        else:
            taken.append((row.name, value, key))
    return Parsed(tuple(taken), tuple(dropped), tuple(ignored))


def parse_env(variables: Mapping[str, Any], key: str) -> Parsed:
    """Environment variables of vLLM; others could change any program and are left out."""
    taken: list[tuple[str, SettingValue, str]] = []
    ignored: list[str] = []
    for name, value in variables.items():
        if ENV_NAME.fullmatch(str(name)) and isinstance(value, str | int | float):
            taken.append((str(name), str(value), key))
        else:
            ignored.append(f"{key}: {name!r} is not a variable of vLLM")
    return Parsed(tuple(taken), (), tuple(ignored))


class _Problem(NamedTuple):
    text: str


def _options(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """(name without dashes, values) of every option; words before the first option are none's."""
    name: str | None = None
    values: list[str] = []
    for word in words:
        if not word.startswith("--"):
            values.append(word)
            continue
        if name is not None:
            yield name, values
        name, equals, value = word.removeprefix("--").partition("=")
        values = [value] if equals else []
    if name is not None:
        yield name, values


def _row(name: str) -> FlagRow | None:
    for text in (name, name.removeprefix("no-")):
        try:
            return flag(text)
        except UserError:
            continue
    return None


def _left_out(name: str) -> str | None:
    if name in PLANNED:
        return "AutoAdapter plans it itself"
    if name in PLACE:
        return "it belongs to the place of deployment"
    if name in FILES:
        return "it names a file or another repository"
    return "only your own --trust-remote-code allows it" if name == TRUST else None


def _value(row: FlagRow, name: str, values: list[str]) -> SettingValue | _Problem:
    """The value of the option's kind, or why there is none."""
    value: SettingValue | None = None
    if row.kind == "bool":
        value = _switch(row, name, values)
    elif row.kind == "list" and values:
        value = tuple(values)
    elif len(values) == 1:
        value = _number(row.kind, values[0])
    if value is None:
        return _Problem(f"--{row.name} takes {row.kind}, not {' '.join(values) or 'nothing'!r}")
    problem = value_problem(row, value)
    return value if problem is None else _Problem(problem)


def _switch(row: FlagRow, name: str, values: list[str]) -> bool | None:
    if values:
        return {"true": True, "false": False}.get(values[0].lower()) if len(values) == 1 else None
    return not (name.startswith("no-") and name != row.name)


def _number(kind: str, text: str) -> SettingValue | None:
    try:
        return int(text) if kind == "int" else float(text) if kind == "float" else text
    except ValueError:
        return None
