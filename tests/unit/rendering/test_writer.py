"""Files appear whole or not at all, and a full disk is a sentence."""

import errno
import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoadapter.errors import StorageError
from autoadapter.rendering.writer import replace_folder, write_atomically, write_tree


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 KiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", mount], capture_output=True)
    if done.returncode:
        pytest.skip(f"mounting a tmpfs needs root: {done.stderr.decode().strip()}")
    yield mount
    subprocess.run(["umount", mount], check=True)


def test_a_full_disk_is_a_sentence_and_keeps_the_old_file(tiny_disk: Path) -> None:
    file = tiny_disk / "profile.json"
    write_atomically(file, "old")
    with pytest.raises(StorageError) as caught:
        write_atomically(file, b"x" * 200_000)
    assert str(caught.value) == f"The disk is full: {file} could not be written."
    assert caught.value.hint == "Free some space and repeat the command: finished stages are kept."
    assert file.read_text() == "old"
    assert sorted(path.name for path in tiny_disk.iterdir()) == ["profile.json"]


def test_a_full_disk_without_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"^The disk is full: .*plan\.json could not be written\.$"):
        write_atomically(tmp_path / "plan.json", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_keeps_the_old_folder(tiny_disk: Path) -> None:
    with replace_folder(tiny_disk / "adapter") as draft:
        write_tree(draft, {"README.md": "old"})
    with pytest.raises(StorageError), replace_folder(tiny_disk / "adapter") as draft:
        write_tree(draft, {"README.md": "new", "big": "x" * 200_000})
    assert (tiny_disk / "adapter" / "README.md").read_text() == "old"
    assert [path.name for path in tiny_disk.iterdir()] == ["adapter"]


def test_an_interrupt_leaves_nothing_half_written(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), replace_folder(tmp_path / "adapter") as draft:
        write_tree(draft, {"a/b.txt": "text"})
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_replacing_removes_what_the_new_folder_lacks(tmp_path: Path) -> None:
    for names in (("a", "b"), ("a",)):
        with replace_folder(tmp_path / "adapter") as draft:
            write_tree(draft, {name: name for name in names})
    assert [path.name for path in (tmp_path / "adapter").iterdir()] == ["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", forbidden)
    with pytest.raises(StorageError) as caught:
        write_atomically(tmp_path / "plan.json", "text")
    assert str(caught.value) == f"{tmp_path / 'plan.json'} may not be written: Permission denied."
    assert caught.value.hint == "Choose a folder that you may write: -w FOLDER"


def test_hashes_are_of_the_bytes_on_disk(tmp_path: Path) -> None:
    made = write_tree(tmp_path, {"x/ü.txt": "grün\n"})
    assert made == {"x/ü.txt": hashlib.sha256((tmp_path / "x" / "ü.txt").read_bytes()).hexdigest()}


def test_a_folder_in_a_files_place_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a file").mkdir()
    with pytest.raises(StorageError) as caught:
        write_atomically(tmp_path / "a file", "new")
    assert str(caught.value) == f"{tmp_path / 'a file'} is a folder, and a file belongs there."
    assert caught.value.hint == f"Move it out of the way: mv '{tmp_path}/a file' '{tmp_path}/a file.old'"
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]
