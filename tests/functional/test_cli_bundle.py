"""From a tiny checkpoint to a bundle without an engine start, and what `--up` refuses before it starts one."""

import json
import socket
import subprocess
from pathlib import Path

import pytest

from tests.functional.conftest import Answer, Command


@pytest.fixture
def bundle(autoadapter: Command, tiny_model: Path, tmp_path: Path) -> Path:
    """An untested bundle of the tiny model, unquantized."""
    steps = (
        ("analyze", tiny_model),
        ("generate", "--scheme", "as_is"),
        ("optimize",),
        ("deploy", "--allow-untested", "--target", "local"),
    )
    for words in steps:
        answer = autoadapter(*words, "-w", "ws")
        assert answer.code == 0, answer.err
    (folder,) = (tmp_path / "ws" / "plans").glob("*/bundle")
    return folder


def error_of(answer: Answer) -> str:
    return next(line.removeprefix("error: ") for line in answer.err.splitlines() if line.startswith("error: "))


def test_without_proof_there_is_no_bundle(autoadapter: Command, tiny_model: Path, tmp_path: Path) -> None:
    for words in (("analyze", tiny_model), ("generate", "--scheme", "as_is"), ("optimize",)):
        autoadapter(*words, "-w", "ws")
    answer = autoadapter("deploy", "-w", "ws")
    assert answer.code == 3
    assert "autoadapter test" in answer.err
    assert not list((tmp_path / "ws" / "plans").glob("*/bundle"))


def test_an_untested_bundle_says_so(bundle: Path) -> None:
    manifest = json.loads((bundle / "bundle.json").read_text())
    assert manifest["report_digest"] is None
    assert {row["status"] for row in manifest["evidence"]} >= {"not_run"}
    done = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=bundle, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_port_in_use(autoadapter: Command, bundle: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ("deploy", "-w", "ws", "--allow-untested", "--target", "local", "--up", "--port", port)
        answer = autoadapter(*words)
    assert answer.code == 2
    assert error_of(answer) == f"Port {port} on 127.0.0.1 is in use."
    assert autoadapter("deploy", "-w", "ws", "--status").code == 0


def test_up_of_an_untested_bundle_needs_the_word(autoadapter: Command, bundle: Path) -> None:
    before = (bundle / "bundle.json").read_bytes()
    answer = autoadapter("deploy", "-w", "ws", "--up")
    assert answer.code == 3
    assert error_of(answer) == "This plan was not tested."
    assert (bundle / "bundle.json").read_bytes() == before
    assert not (bundle.parent / "server.json").exists()


def test_up_of_another_target(autoadapter: Command, bundle: Path) -> None:
    answer = autoadapter("deploy", "-w", "ws", "--target", "kubernetes", "--up")
    assert answer.code == 2
    assert error_of(answer) == "--up starts the local target only."


def test_up_and_down_at_once(autoadapter: Command, bundle: Path) -> None:
    assert error_of(autoadapter("deploy", "-w", "ws", "--up", "--down")).startswith("--up, --down and --status exclude")


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("colour=red", "--site knows no 'colour'."),
        ("replicas=many", "--site replicas='many' will not do: "),
        ("namespace", "--site 'namespace' is not NAME=VALUE."),
    ],
)
def test_site_facts_are_checked(autoadapter: Command, bundle: Path, pair: str, message: str) -> None:
    answer = autoadapter("deploy", "-w", "ws", "--allow-untested", "--site", pair)
    assert answer.code == 2
    assert error_of(answer).startswith(message)


def test_site_facts_reach_the_manifests(autoadapter: Command, bundle: Path) -> None:
    answer = autoadapter("deploy", "-w", "ws", "--allow-untested", "--site", "namespace=inference")
    assert answer.code == 0, answer.err
    assert "namespace: inference" in (bundle / "kubernetes" / "kustomization.yaml").read_text()


def test_status_without_a_server(autoadapter: Command, bundle: Path) -> None:
    answer = autoadapter("deploy", "-w", "ws", "--status", "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["state"] == "never_started"
