"""Who is the process that `server.json` names: ours, gone, or a stranger that got its number."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import httpx

from autoadapter.artifacts import LocalServer
from autoadapter.deploy.facts import client_url

_PROC = Path("/proc")
POLL_SECONDS = 0.2
KILL_SECONDS = 5.0


def start_ticks(pid: int) -> int | None:
    """Start time in clock ticks since boot, None when no such process runs (a zombie does not).

    Source: proc_pid_stat(5), fields 3 (state) and 22 (starttime); the name in field 2 may hold spaces and brackets.
    """
    try:
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace", encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def is_ours(server: LocalServer) -> bool:
    """Whether anything of it still runs: the leader, or a child that writes to its log after the leader died."""
    if start_ticks(server.process_group) == server.process_start_ticks:
        return True
    return any(_writes_to(pid, server.log) for pid in _members(server.process_group))


def _members(group: int) -> list[int]:
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if start_ticks(pid) is not None and _group_of(pid) == group]


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _writes_to(pid: int, log: str) -> bool:
    try:
        return any((_PROC / str(pid) / "fd" / number).samefile(log) for number in ("1", "2"))
    except OSError:
        return False


def stop(server: LocalServer, grace: float) -> bool:
    """End the group if it is ours. Returns whether it is gone.

    SIGTERM goes to the leader alone: it lets requests in flight end and then stops its engine processes; sent to the
    whole group it would kill the engine under those requests. What still runs after `grace` seconds gets SIGKILL.
    A stranger that got the same number is never signalled.
    """
    led = start_ticks(server.process_group) == server.process_start_ticks
    gently = os.kill if led else os.killpg
    for send, sign, patience in ((gently, signal.SIGTERM, grace), (os.killpg, signal.SIGKILL, KILL_SECONDS)):
        deadline = time.monotonic() + patience
        if is_ours(server):
            with suppress(ProcessLookupError):
                send(server.process_group, sign)
        while time.monotonic() < deadline and is_ours(server):
            _reap(server.process_group)
            time.sleep(POLL_SECONDS)
    return not is_ours(server)


def _reap(pid: int) -> None:
    """A child of this very process stays a zombie until somebody asks."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def uptime_seconds(server: LocalServer) -> float:
    """Seconds since the leader started, by the clock that no administrator moves."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - server.process_start_ticks / os.sysconf("SC_CLK_TCK")


def loaded_models(server: LocalServer) -> tuple[str, ...] | None:
    """Names that `/v1/models` lists, None when the server does not answer in time."""
    key = os.environ.get("VLLM_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    url = client_url(server.host, server.port)
    try:
        if httpx.get(f"{url}/health", timeout=5.0, trust_env=False).status_code != httpx.codes.OK:
            return None
        answer = httpx.get(f"{url}/v1/models", headers=headers, timeout=5.0, trust_env=False)
        return tuple(str(row["id"]) for row in answer.raise_for_status().json()["data"])
    except httpx.HTTPStatusError:
        return ()  # answers, but wants a key that we do not have
    except (httpx.HTTPError, ValueError, LookupError, TypeError):
        return None
