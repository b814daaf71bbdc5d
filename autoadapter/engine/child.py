"""A child process that is read line by line and never outlives an interrupt."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autoadapter.engine.process import stop_group


@dataclass(frozen=True)
class Ended:
    """How a child ended."""

    code: int
    """Exit code; negative for the signal that ended it."""
    peak_rss_bytes: int


def run_lines(command: Sequence[str], on_line: Callable[[str], None], *, env: Mapping[str, str] | None = None) -> Ended:
    """Run a command in a process group of its own and hand over each line of stdout and stderr as it comes.

    When `on_line` raises or the user interrupts, the whole group is stopped.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        start_new_session=True,
    )
    try:
        for line in process.stdout or ():
            on_line(line.decode(errors="replace").rstrip("\n"))
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        stop_group(process.pid, grace=5.0)
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(process.returncode, usage.ru_maxrss * 1024)  # Linux gives KiB, getrusage(2)
