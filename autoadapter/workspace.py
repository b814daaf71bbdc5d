"""Where a model's files live: one folder a model, one folder a plan, and a record of what each stage was made from.

<workspace>/
  workspace.json         which model, which version of this layout
  profile.json           analyze
  reference/             the unquantized checkpoint, where the source had to be converted
  plans/<digest>/        one folder a plan: plan.json adapter/ optimized/ report.json report.html bundle/
  current-plan           which of them the next command means
  history/               results that a newer run replaced
  logs/
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from autoadapter import __version__
from autoadapter.artifacts import Artifact, ModelRef, ServingPlan
from autoadapter.errors import WorkspaceError
from autoadapter.rendering import write_atomically
from autoadapter.rendering.writer import explain_storage_errors

ENV_WORKSPACE = "AUTOADAPTER_WORKSPACE"
PLAN_DIGITS = 12
DRAFTS = ("bundle", "adapter", "optimized", "reference")
"""Folders that stages build under `.NAME.XXXX` before they take their place."""
PLAN_NAME = re.compile(r"[0-9a-f]{12}")


class WorkspaceMark(Artifact):
    """`workspace.json`: says that a folder is a workspace, and of which model."""

    file_name: ClassVar[str] = "workspace.json"
    stage: ClassVar[str] = "analyze"

    model: ModelRef


class Workspace:
    """A folder with the layout above. Every path is absolute."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.profile_path = self.root / "profile.json"
        self.reference = self.root / "reference"
        self.logs = self.root / "logs"

    @property
    def mark(self) -> WorkspaceMark:
        """Which model this is. Raises a WorkspaceError when the folder is no workspace, or of another version."""
        path = self.root / WorkspaceMark.file_name
        if not path.exists():
            raise WorkspaceError(f"{self.root} is not a workspace.", hint="autoadapter analyze MODEL -w FOLDER")
        try:
            return WorkspaceMark.read(path)
        except WorkspaceError as error:
            hint = "Start a new workspace: autoadapter analyze MODEL -w NEW_FOLDER"
            raise WorkspaceError(str(error), hint=hint) from None

    @classmethod
    def open_for(cls, model: ModelRef, root: Path | None = None) -> Self:
        """The workspace of a model, made if need be, and current from now on.

        Raises:
            WorkspaceError: the folder belongs to another model or another version.
        """
        workspace = cls(root or _default_root() / model.slug)
        known = workspace._known_model()
        if known is not None and known.location != model.location:
            raise WorkspaceError(
                f"{workspace.root} belongs to {known.location}, not to {model.location}.",
                hint=f"autoadapter analyze {model.location} -w ANOTHER_FOLDER",
            )
        if known != model:
            mark = WorkspaceMark(tool_version=__version__, model=model)
            write_atomically(workspace.root / WorkspaceMark.file_name, mark.to_json())
        if root is None or sys.stdin.isatty():
            write_atomically(_default_root() / ".current", str(workspace.root) + "\n")
        return workspace

    def _known_model(self) -> ModelRef | None:
        """The model of an existing workspace; another revision of it is the same model and makes the stages stale."""
        return self.mark.model if (self.root / WorkspaceMark.file_name).exists() else None

    @property
    def plan_folder(self) -> Path:
        """Folder of the current plan.

        Raises:
            WorkspaceError: `generate` has not run here.
        """
        name = self._current_plan()
        if name is None:
            raise WorkspaceError(
                f"{self.root} has no plan: the stage `generate` has not run here.",
                hint=f"autoadapter generate -w {self.root}",
            )
        return self.root / "plans" / name

    def _current_plan(self) -> str | None:
        pointer = self.root / "current-plan"
        name = pointer.read_text(errors="replace", encoding="utf-8").strip() if pointer.is_file() else ""
        return name if PLAN_NAME.fullmatch(name) and (self.root / "plans" / name).is_dir() else None

    @contextmanager
    def plan_on_trial(self) -> Iterator[None]:
        """A block that may make another plan current; if it fails, the one before is current again."""
        before = self._current_plan()
        try:
            yield
        except BaseException:
            if before is not None:
                write_atomically(self.root / "current-plan", before + "\n")
            raise

    def bundle_with_server(self) -> Path:
        """The bundle whose server is up, whatever plan is current now; else the current plan's."""
        running = sorted(path.with_name("bundle") for path in self.root.glob("plans/*/server.json"))
        current = self._current_plan()
        mine = self.root / "plans" / current / "bundle" if current else None
        return mine if mine and (mine in running or not running) else running[0] if running else self.plan_folder

    def adopt_plan(self, plan: ServingPlan) -> Path:
        """Write a plan beside the others and make it the current one. Returns its folder."""
        name = plan.digest()[:PLAN_DIGITS]
        folder = self.root / "plans" / name
        if not (folder / plan.file_name).exists():
            write_atomically(folder / plan.file_name, plan.to_json())
        write_atomically(self.root / "current-plan", name + "\n")
        return folder

    def set_aside(self, path: Path) -> None:
        """Move a result that is about to be replaced into `history/`: a measured result is never lost."""
        if path.exists():
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            content = hashlib.sha256(path.read_bytes() if path.is_file() else b"").hexdigest()[:8]
            place = self.root / "history" / f"{stamp}-{path.parent.name}-{content}-{path.name}"
            with explain_storage_errors(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                path.rename(place)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One writer at a time.

        Raises:
            WorkspaceError: another process works here.
        """
        path = self.root / ".lock"
        with explain_storage_errors(path):
            opened = path.open("a+", encoding="utf-8")
        with opened as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise WorkspaceError(
                    f"Another autoadapter (process {file.read().strip()}) works in {self.root}.",
                    hint="Wait for it, or choose another workspace: -w FOLDER",
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self._sweep()
            yield

    def _sweep(self) -> None:
        """Drafts that a killed process left: nobody else works here now. A folder caught between renames comes back."""
        for old in self.root.rglob(".*.old.*"):
            final = old.with_name(old.name[1:].partition(".old.")[0])
            if (old / "was").exists() and not final.exists():
                (old / "was").rename(final)
        for name in DRAFTS:
            for draft in self.root.rglob(f".{name}.*"):
                shutil.rmtree(draft, ignore_errors=True) if draft.is_dir() else draft.unlink(missing_ok=True)


class StageRecords:
    """`stages.json` of a folder: stage → digest of what it was made from. Says whether a stage may be skipped."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "stages.json"

    def is_fresh(self, stage: str, inputs: Mapping[str, Any], *outputs: Path) -> bool:
        """Whether the stage's outputs exist and were made from exactly these inputs."""
        return self._read().get(stage) == digest_of(inputs) and all(path.exists() for path in outputs)

    def remember(self, stage: str, inputs: Mapping[str, Any]) -> None:
        """Note that the stage finished."""
        write_atomically(self.path, json.dumps({**self._read(), stage: digest_of(inputs)}, indent=2) + "\n")

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def digest_of(inputs: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical JSON of a stage's inputs."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()


def current_workspace(named: Path | None) -> Workspace:
    """The workspace of `-w`, of the environment, or (on a terminal) the one that `analyze` opened last.

    Raises:
        WorkspaceError: none is named and none may be guessed.
    """
    chosen = named or (Path(value) if (value := os.environ.get(ENV_WORKSPACE)) else None)
    if chosen is None:
        chosen = _last_opened()
    workspace = Workspace(chosen)
    _ = workspace.mark
    return workspace


def _last_opened() -> Path:
    pointer = _default_root() / ".current"
    if not sys.stdin.isatty():
        raise WorkspaceError(
            f"No workspace is named; without a terminal -w or {ENV_WORKSPACE} is required.",
            hint="Repeat the command with -w FOLDER",
        )
    if not pointer.is_file():
        raise WorkspaceError("No model has been analyzed here.", hint="autoadapter analyze MODEL")
    return Path(pointer.read_text(encoding="utf-8").strip())


def _default_root() -> Path:
    return Path.cwd() / "autoadapter-workspaces"
