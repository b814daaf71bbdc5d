"""What the errors of one call are told with: its own command and the options that the next command needs, too."""

import re
import shlex
from collections.abc import Sequence

from autoadapter.errors import AutoadapterError, UserError

COMMAND = "autoadapter COMMAND"
"""How a hint names the command that the user typed."""
LATER_STAGE = re.compile(r"autoadapter (generate|optimize|test|deploy)\b")
WORKSPACE = ("-w", "--workspace")
WHOLE_COMMAND = "--strategy"
"""A hint with it is a command to the last word, so it keeps what the plan's own request does not know."""
BESIDE = (("--recipes",), ("--engine-python",))


def completed(error: AutoadapterError, words: Sequence[str], commands: Sequence[str]) -> AutoadapterError:
    """The error with a hint that works as it is printed.

    Args:
        error: as the stage raised it; stages know neither the command nor its workspace.
        words: what the user typed after `autoadapter`.
        commands: names of the commands.
    """
    if error.hint is None:
        return error
    hint = error.hint
    if hint.startswith(COMMAND):
        hint = hint.replace(COMMAND, _command(words, commands), 1)
    stage = LATER_STAGE.match(hint)
    if stage is not None:
        names = [WORKSPACE, *(BESIDE if WHOLE_COMMAND in hint else ())]
        said = [part for spellings in names if not _has(hint, spellings) for part in _option(words, spellings)]
        hint = " ".join([stage[0], *said]) + hint[stage.end() :]
    error.hint = hint
    return error


def usage_error(message: str, words: Sequence[str], commands: Sequence[str]) -> UserError:
    """A wrong option in the house's form: one sentence, and where the options are told.

    Args:
        message: typer's.
        words: what the user typed after `autoadapter`.
        commands: names of the commands.
    """
    sentence = message.strip().rstrip(".")
    named = re.match(r"Invalid value for '(--[a-z-]+)'(.*)", sentence, re.DOTALL)
    value = _option(words, (named[1],)) if named else []
    if named and value:
        sentence = f"Invalid value {value[1]} for {named[1]}{named[2]}"
    return UserError(f"{' '.join(sentence.split())}.", hint=f"{_command(words, commands)} --help")


def _command(words: Sequence[str], commands: Sequence[str]) -> str:
    """`autoadapter analyze`, as the user typed it."""
    typed = next((word for word in words if not word.startswith("-")), None)
    return f"autoadapter {typed}" if typed in commands else "autoadapter"


def _has(hint: str, spellings: Sequence[str]) -> bool:
    return any(re.search(rf"(?<!\S){name}(?![\w-])", hint) for name in spellings)


def _option(words: Sequence[str], spellings: Sequence[str]) -> list[str]:
    """An option as the user gave it, last one first, ready for a shell: `["-w", "'my folder'"]`; empty without it."""
    for at in range(len(words) - 1, -1, -1):
        name, equals, value = words[at].partition("=")
        if name in spellings and equals:
            return [spellings[0], shlex.quote(value)]
        if words[at] in spellings and at + 1 < len(words):
            return [spellings[0], shlex.quote(words[at + 1])]
    return []
