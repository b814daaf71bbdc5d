"""Standard output that is full, closed, or of a terminal without most letters."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASCII = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


def command(words: str, folder: Path, model: Path, changes: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code and stderr of a command in a shell; `AA` stands for the tool, `MODEL` for the model."""
    line = words.replace("AA", f"{sys.executable} -m autoadapter").replace("MODEL", f"{model} -w {folder / 'ws'}")
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        env={**os.environ, **(changes or {})},
        cwd=folder,
        capture_output=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr.decode("utf-8", errors="replace")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    "words", ["AA analyze MODEL --json", "AA analyze MODEL", "AA analyze /nope --json", "AA --help"]
)
def test_a_full_disk_behind_stdout(tmp_path: Path, tiny_model: Path, words: str) -> None:
    code, err = command(f"{words} > /dev/full", tmp_path, tiny_model)
    assert code == 1
    assert err.count("error: Standard output could not be written: No space left on device.\n") == 1
    assert "Traceback" not in err and "Internal" not in err and "Exception ignored" not in err


@pytest.mark.parametrize("option", ["", "--json"])
def test_a_closed_stdout(tmp_path: Path, tiny_model: Path, option: str) -> None:
    code, err = command(f"AA analyze MODEL {option} >&-", tmp_path, tiny_model)
    assert code == 1
    assert err.startswith("error: Standard output could not be written: it is closed.\ntry: ")
    assert "Traceback" not in err
    assert command(f"AA analyze MODEL {option} >&- 2>&-", tmp_path, tiny_model) == (1, "")


def test_a_reader_that_leaves(tmp_path: Path, tiny_model: Path) -> None:
    code, err = command("(AA analyze MODEL --json; echo $? >&2) | true", tmp_path, tiny_model)
    assert code == 0 and err.endswith("\n1\n")
    assert "error" not in err and "Traceback" not in err


@pytest.mark.parametrize("option", ["", "--json", "--verbose"])
def test_a_terminal_without_letters(tmp_path: Path, tiny_model: Path, option: str) -> None:
    code, err = command(f"AA analyze MODEL --hardware h200:2 {option}", tmp_path, tiny_model, ASCII)
    assert (code, "Traceback" in err) == (0, False), err


def test_a_path_that_the_locale_cannot_spell(tmp_path: Path, tiny_model: Path) -> None:
    other = tmp_path / "modèl"
    tiny_model.rename(other)
    code, err = command("AA analyze MODEL", tmp_path, other, ASCII)
    assert code == 2
    assert "try: Set a UTF-8 locale and repeat the command: export LC_ALL=C.UTF-8" in err
