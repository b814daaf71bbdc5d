"""Perplexity arithmetic, the bundled texts, and the user's calibration file."""

import json
import math
from pathlib import Path

import pytest

from autoadapter.artifacts import Level
from autoadapter.errors import UserError
from autoadapter.optimize.quality import compare, findings
from autoadapter.optimize.texts import CALIBRATION, HELD_OUT, calibration_file, text_sha256


def test_compare_by_hand() -> None:
    quality = compare([1.0, 2.0, 3.0, 4.0], [1.1, 2.1, 3.3, 4.3])
    assert quality.tokens == 4
    assert quality.perplexity_before == pytest.approx(math.exp(2.5), abs=1e-3)
    assert quality.perplexity_after == pytest.approx(math.exp(2.7), abs=1e-3)
    assert quality.delta_nll == pytest.approx(0.2)
    # differences .1 .1 .3 .3: sd = sqrt(4 * 0.01 / 3), over sqrt(4)
    assert quality.delta_nll_se == pytest.approx(math.sqrt(0.04 / 3) / 2, abs=1e-6)
    assert quality.text_sha256 == text_sha256(HELD_OUT)


def test_different_tokens_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="zip"):
        compare([1.0, 2.0], [1.0])


def test_a_loss_beyond_noise_is_told() -> None:
    assert findings(compare([2.0] * 100, [2.01] * 100)) == ()
    noisy = [2.0 + (3.0 if index % 2 else -2.8) for index in range(20)]
    assert findings(compare([2.0] * 20, noisy)) == ()
    (finding,) = findings(compare([2.0] * 100, [2.3] * 100))
    assert finding.level is Level.WARNING
    assert "+35%" in finding.message


def test_bundled_texts_share_no_line() -> None:
    """What is measured on must not have been calibrated on."""
    rows = [json.loads(line) for line in CALIBRATION.read_text().splitlines()]
    texts = [row["text"] for row in rows if "text" in row]
    texts += [message["content"] for row in rows for message in row.get("messages", ())]
    calibration = {line.strip() for text in texts for line in text.splitlines() if len(line.strip()) > 20}
    held_out = {line.strip() for line in HELD_OUT.read_text().splitlines() if len(line.strip()) > 20}
    assert calibration
    assert held_out
    assert not calibration & held_out


def test_the_bundled_calibration_is_valid(tmp_path: Path) -> None:
    assert calibration_file(None) == CALIBRATION
    assert calibration_file(CALIBRATION) == CALIBRATION.resolve()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b""),
        ("a.txt", b"\xff\xfe\x00x"),
        ("a.jsonl", b"not json\n"),
        ("a.jsonl", b'{"text": "fine"}\n[1]\n'),
        ("a.jsonl", b'{"text": 5}\n'),
        ("a.jsonl", b'{"messages": []}\n'),
        ("a.jsonl", b'{"messages": [{"role": "user"}]}\n'),
    ],
)
def test_bad_calibration_files_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        calibration_file(path)
    assert str(path) in str(caught.value)
    assert "jsonl" in (caught.value.hint or "")


def test_a_missing_calibration_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        calibration_file(tmp_path / "none.txt")
