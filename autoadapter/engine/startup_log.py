"""Reads vLLM's start-up log: where it is, how much KV cache it found, why it died."""

import re
from dataclasses import dataclass
from pathlib import Path

PHASES: tuple[tuple[str, str], ...] = (
    (r"Application startup complete", "answering"),
    (r"Starting vLLM server", "opening the port"),
    (r"init engine .* took|Graph capturing finished", "warm"),
    (r"KV cache size", "warming up"),
    (r"Loading weights took", "measuring memory"),
    (r"Loading (safetensors|pt) checkpoint|Starting to load model", "loading weights"),
    (r"Initializing a V1 LLM engine|EngineCore", "starting the engine"),
    (r"non-default args|vLLM API server version", "reading the configuration"),
)
"""Latest phase first."""

_KV_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x")
_BLOCKS = re.compile(r"num_(?:gpu|cpu)_blocks(?: is)?[:=] ?(\d+)")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX = re.compile(
    r"^\((?:APIServer|EngineCore|Worker)[^)]*\)\s*"
    r"(?:(?:ERROR|INFO|WARNING|CRITICAL) \S+ \S+ \[[^\]]*\]\s*)?"
)
_CAUSE = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b(?:: .*)?$")
_ARGUMENT = re.compile(r"^(?:vllm|api_server\.py|launcher\.py)[^:]*: error: (.*)$")
_GENERIC = (
    "Engine core initialization failed",
    "WorkerProc initialization failed",
    "EngineDeadError",
    "SystemExit",
    "KeyboardInterrupt",
)
_WRAPPED = re.compile(r"^\w+Error: Worker failed with error ['\"](.*)['\"], please check the stack trace")
_VALIDATION = re.compile(r"^(?:\S+\.)?ValidationError: \d+ validation errors? for (.*)$")
_LONGEST_CAUSE = 400


@dataclass(frozen=True)
class StartupLog:
    """Facts of one start."""

    phase: str
    kv_cache_tokens: int | None = None
    max_concurrency: float | None = None
    num_blocks: int | None = None


def read_startup_log(path: Path) -> StartupLog:
    """What the log says so far; a log that does not exist yet is "starting"."""
    text = _text(path)
    phase = next((name for pattern, name in PHASES if re.search(pattern, text)), "importing")
    tokens, concurrency, blocks = (_last(pattern, text) for pattern in (_KV_TOKENS, _CONCURRENCY, _BLOCKS))
    return StartupLog(
        phase=phase,
        kv_cache_tokens=int(tokens.replace(",", "")) if tokens else None,
        max_concurrency=float(concurrency) if concurrency else None,
        num_blocks=int(blocks) if blocks else None,
    )


def last_cause(path: Path) -> str | None:
    """The error that stopped the process, in one line.

    vLLM prints the root cause in the engine's traceback and a generic one after it; the last that is not generic wins.
    """
    lines = [_PREFIX.sub("", line).strip() for line in _text(path).splitlines()]
    causes = [_with_detail(lines, index) for index, line in enumerate(lines) if _CAUSE.match(line)]
    causes += [match[1] for line in lines if (match := _ARGUMENT.match(line))]
    telling = [cause for cause in causes if not any(generic in cause for generic in _GENERIC)]
    candidates = telling or causes or [line for line in lines if line]
    return candidates[-1][:_LONGEST_CAUSE] if candidates else None


def _with_detail(lines: list[str], index: int) -> str:
    """The cause at `index`, with what its library prints below the headline and without its wrapping."""
    headline, below = lines[index], lines[index + 1 : index + 5]
    if match := _WRAPPED.match(headline):
        return match[1]
    if match := _VALIDATION.match(headline):
        return f"{match[1]}: {_pydantic_detail(below)}"
    if headline.startswith("yaml."):
        return f"{headline}: {'; '.join(line for line in below if line)}"
    return headline


def _pydantic_detail(below: list[str]) -> str:
    """`Value error, WHY [type=…` directly below the headline, or a field's name and then why."""
    message = next(iter(below), "")
    if len(below) > 1 and "[type=" not in message and not message.startswith(("Value error", "Assertion failed")):
        message = f"{message}: {below[1]}"
    return message.partition(" [type=")[0].removeprefix("Value error, ")


def _text(path: Path) -> str:
    try:
        return _ANSI.sub("", path.read_text(errors="replace", encoding="utf-8"))
    except FileNotFoundError:
        return ""


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    return found[-1] if found else None
