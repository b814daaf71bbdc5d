"""Workspaces: whose they are, which plan is meant, what is never lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autoadapter.artifacts import ModelKind, ModelRef
from autoadapter.errors import StorageError, WorkspaceError
from autoadapter.workspace import StageRecords, Workspace, current_workspace

HERE = ModelRef(kind=ModelKind.FOLDER, location="/models/one")
ELSEWHERE = ModelRef(kind=ModelKind.FOLDER, location="/other/one")


def test_a_workspace_belongs_to_one_model(tmp_path: Path) -> None:
    Workspace.open_for(HERE, tmp_path)
    Workspace.open_for(HERE, tmp_path)
    with pytest.raises(WorkspaceError) as caught:
        Workspace.open_for(ELSEWHERE, tmp_path)
    assert str(caught.value) == f"{tmp_path} belongs to /models/one, not to /other/one."
    assert caught.value.hint == "autoadapter analyze /other/one -w ANOTHER_FOLDER"
    assert caught.value.exit_code == 2


def test_workspace_of_another_version(tmp_path: Path) -> None:
    workspace = Workspace.open_for(HERE, tmp_path)
    mark = workspace.root / "workspace.json"
    document = json.loads(mark.read_text())
    mark.write_text(json.dumps({**document, "schema_version": 7}))
    with pytest.raises(WorkspaceError) as caught:
        current_workspace(tmp_path)
    assert str(caught.value) == f"{mark} has schema version 7, this AutoAdapter reads version 1."
    assert caught.value.hint == "Start a new workspace: autoadapter analyze MODEL -w NEW_FOLDER"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 1}', '{"schema_version": 1, "x": 1}'])
def test_a_damaged_mark_is_one_clear_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "workspace.json").write_text(text)
    with pytest.raises(WorkspaceError, match="is not what this AutoAdapter writes"):
        current_workspace(tmp_path)


def test_no_workspace_is_guessed_without_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Workspace.open_for(HERE)
    with pytest.raises(WorkspaceError) as caught:
        current_workspace(None)
    assert str(caught.value) == "No workspace is named; without a terminal -w or AUTOADAPTER_WORKSPACE is required."
    monkeypatch.setenv("AUTOADAPTER_WORKSPACE", str(tmp_path / "autoadapter-workspaces" / "one"))
    assert current_workspace(None).mark.model == HERE


def test_a_folder_that_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError) as caught:
        current_workspace(tmp_path)
    assert str(caught.value) == f"{tmp_path} is not a workspace."


def test_the_next_stage_names_the_one_before(tmp_path: Path) -> None:
    workspace = Workspace.open_for(HERE, tmp_path)
    with pytest.raises(WorkspaceError) as caught:
        _ = workspace.plan_folder
    assert caught.value.hint == f"autoadapter generate -w {tmp_path}"


def test_one_process_at_a_time(tmp_path: Path) -> None:
    workspace = Workspace.open_for(HERE, tmp_path)
    code = (
        "import sys, pathlib; from autoadapter.workspace import Workspace; "
        "lock = Workspace(pathlib.Path(sys.argv[1])).lock(); lock.__enter__(); "
        "print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout and holder.stdin
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(WorkspaceError) as caught, workspace.lock():
            pass
        assert str(caught.value) == f"Another autoadapter (process {holder.pid}) works in {tmp_path}."
        holder.stdin.close()
    with workspace.lock():
        pass


def test_a_replaced_result_moves_to_history(tmp_path: Path) -> None:
    workspace = Workspace.open_for(HERE, tmp_path)
    report = tmp_path / "plans" / "abc" / "report.json"
    report.parent.mkdir(parents=True)
    report.write_text("measured")
    workspace.set_aside(report)
    assert not report.exists()
    assert [path.read_text() for path in (tmp_path / "history").iterdir()] == ["measured"]


def test_two_results_of_one_second_are_both_kept(tmp_path: Path) -> None:
    workspace = Workspace.open_for(HERE, tmp_path)
    for text in ("first", "second"):
        (tmp_path / "profile.json").write_text(text)
        workspace.set_aside(tmp_path / "profile.json")
    assert sorted(path.read_text() for path in (tmp_path / "history").iterdir()) == ["first", "second"]


def test_a_stage_is_fresh_only_with_the_same_inputs_and_its_output(tmp_path: Path) -> None:
    records, output = StageRecords(tmp_path), tmp_path / "out.json"
    assert not records.is_fresh("optimize", {"a": 1}, output)
    output.write_text("done")
    records.remember("optimize", {"a": 1})
    assert records.is_fresh("optimize", {"a": 1}, output)
    assert not records.is_fresh("optimize", {"a": 2}, output)
    assert not records.is_fresh("test", {"a": 1}, output)
    output.unlink()
    assert not records.is_fresh("optimize", {"a": 1}, output)


def test_damaged_records_mean_run_again(tmp_path: Path) -> None:
    (tmp_path / "stages.json").write_text('{"optimize": ')
    assert not StageRecords(tmp_path).is_fresh("optimize", {}, tmp_path)


def test_another_revision_is_the_same_workspace_and_is_remembered(tmp_path: Path) -> None:
    first = ModelRef(kind=ModelKind.HUB, location="o/m", revision="A", commit="a" * 40)
    second = first.model_copy(update={"revision": "B", "commit": "b" * 40})
    Workspace.open_for(first, tmp_path)
    assert Workspace.open_for(second, tmp_path).mark.model == second


@pytest.mark.parametrize("pointer", ["", "../../..", "nonsense", "0123456789ab"])
def test_a_damaged_pointer_means_no_plan(tmp_path: Path, pointer: str) -> None:
    workspace = Workspace.open_for(HERE, tmp_path)
    (tmp_path / "current-plan").write_text(pointer)
    with pytest.raises(WorkspaceError, match="has no plan"):
        _ = workspace.plan_folder


def test_a_workspace_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be made"):
        Workspace.open_for(HERE, tmp_path / "file" / "below")


def test_a_running_server_is_found_under_another_plan(tmp_path: Path) -> None:
    workspace = Workspace.open_for(HERE, tmp_path)
    for name in ("0" * 12, "1" * 12):
        (tmp_path / "plans" / name).mkdir(parents=True)
    (tmp_path / "current-plan").write_text("1" * 12)
    assert workspace.bundle_with_server() == tmp_path / "plans" / ("1" * 12) / "bundle"
    (tmp_path / "plans" / ("0" * 12) / "server.json").touch()
    assert workspace.bundle_with_server() == tmp_path / "plans" / ("0" * 12) / "bundle"
    (tmp_path / "plans" / ("1" * 12) / "server.json").touch()
    assert workspace.bundle_with_server() == tmp_path / "plans" / ("1" * 12) / "bundle"


def test_a_folder_in_the_marks_place(tmp_path: Path) -> None:
    (tmp_path / "workspace.json").mkdir()
    with pytest.raises(WorkspaceError, match=r"workspace\.json is a folder, and a file belongs there\.$"):
        current_workspace(tmp_path)


def test_a_folder_in_the_place_of_the_records(tmp_path: Path) -> None:
    (tmp_path / "stages.json").mkdir()
    with pytest.raises(StorageError, match=r"stages\.json is a folder, and a file belongs there\.$"):
        StageRecords(tmp_path).remember("analyze", {})
    assert (tmp_path / "stages.json").is_dir()
