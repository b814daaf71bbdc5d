"""The parts of the checks that need no engine."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from autoadapter.artifacts import Status
from autoadapter.engine.client import StreamedAnswer, parse_metrics
from autoadapter.errors import WorkspaceError
from autoadapter.verify import texts
from autoadapter.verify.checks.bench import absent_part
from autoadapter.verify.checks.load import LoadCheck, counted, load_prompts, why_lost
from autoadapter.verify.checks.quality import QualityCheck, Side, Window, windows_of
from autoadapter.verify.checks.tokenizer import (
    Adapter,
    compare_adapter,
    leading_bos,
    load_adapter,
)
from autoadapter.verify.context import CheckContext
from autoadapter.verify.degeneration import is_degenerate
from autoadapter.verify.scale import SCALES
from tests.unit.verify import verify_samples

WHOLE = StreamedAnswer(200, "text", "stop", True, 0.1, 0.2)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (WHOLE, None),
        (StreamedAnswer(503, error="queue full"), "status 503"),
        (StreamedAnswer(0, error="ReadTimeout"), "ReadTimeout"),
        (StreamedAnswer(200, "text", "stop", False), "[DONE]"),
        (StreamedAnswer(200, "text", None, True), "finish_reason"),
        (StreamedAnswer(200, "text", "abort", True), "finish_reason"),
        (StreamedAnswer(200, "", "stop", True), "empty"),
    ],
)
def test_what_counts_as_lost(answer: StreamedAnswer, why: str | None) -> None:
    told = why_lost(answer)
    assert told is None if why is None else told is not None and why in told


def server(finished: float = 3, running: float = 0) -> dict[str, object]:
    text = 'vllm:request_success_total{{finished_reason="stop"}} {}\nvllm:num_requests_running{{}} {}\n'
    return dict(counted(parse_metrics(text.format(5, 0)), parse_metrics(text.format(5 + finished, running))))


@pytest.mark.parametrize(
    ("answers", "counts", "status"),
    [
        ([WHOLE] * 3, server(), Status.PASSED),
        ([WHOLE, WHOLE, StreamedAnswer(200, "t", "stop", False)], server(), Status.FAILED),
        ([WHOLE] * 3, server(finished=2), Status.FAILED),
        ([WHOLE] * 3, server(running=1), Status.FAILED),
    ],
)
def test_one_lost_request_fails_the_load(answers: list[StreamedAnswer], counts: dict, status: Status) -> None:  # type: ignore[type-arg]
    assert LoadCheck()._verdict(answers, 2, 1.0, counts).status is status


def test_no_two_load_prompts_are_alike() -> None:
    prompts = load_prompts(200, chat=False)
    assert len({str(prompt)[:8] for prompt in prompts}) == 200


@pytest.mark.parametrize(
    ("ids", "stuck"),
    [
        ([5] * 40, True),
        ([1, 2, 3, 4] * 12, True),
        (list(range(30)) + [9] * 12, True),
        (list(range(48)), False),
        ([5] * 10, False),
        ([], True),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10] * 3, False),
    ],
)
def test_degeneration(ids: list[int], stuck: bool) -> None:
    assert is_degenerate(ids) is stuck


def quality_context(tmp_path: Path, engine: object = None, *, unchanged: bool = False) -> CheckContext:
    served = tmp_path / ("reference" if unchanged else "served")
    request = verify_samples.request(tmp_path, tmp_path / "reference", served, engine)  # type: ignore[arg-type]
    return cast(CheckContext, SimpleNamespace(request=request, scale=SCALES[request.depth]))


def quality_side(shift: float, degenerate: int | None = 0) -> Side:
    wobble = [0.01 * (at % 3 - 1) for at in range(300)]
    return Side([[-2.0 - shift - extra * bool(shift) for extra in wobble]], [[1] * 300], degenerate, 192)


@pytest.mark.parametrize(
    ("shift", "degenerate", "status"),
    [(0.03, 0, Status.PASSED), (-0.5, 0, Status.PASSED), (0.06, 0, Status.FAILED), (0.0, 1, Status.FAILED)],
)
def test_quality_is_one_sided(tmp_path: Path, shift: float, degenerate: int, status: Status) -> None:
    windows = [Window("prose", list(range(301)))]
    result = QualityCheck()._verdict(
        quality_context(tmp_path), windows, quality_side(0.0), quality_side(shift, degenerate)
    )
    assert result.status is status
    assert result.measured["delta_nll"] == pytest.approx(shift, abs=1e-3)


def test_a_loop_of_the_original_is_not_held_against_the_candidate(tmp_path: Path) -> None:
    windows = [Window("prose", list(range(301)))]
    context = quality_context(tmp_path)
    result = QualityCheck()._verdict(context, windows, quality_side(0.0, 2), quality_side(0.0, 2))
    assert result.status is Status.PASSED


@pytest.mark.parametrize(("bits", "nats"), [(None, 0.01), (16, 0.01), (8, 0.05), (4, 0.35), (5, 0.35), (2, 0.35)])
def test_quality_limits(bits: int | None, nats: float) -> None:
    assert texts.quality_limit(bits).nats == nats


def test_windows_are_whole() -> None:
    assert [len(window.ids) for window in windows_of("x", list(range(25)), 10)] == [10, 10, 5]
    assert [len(window.ids) for window in windows_of("x", list(range(23)), 10)] == [10, 10]
    assert [len(window.ids) for window in windows_of("x", list(range(3)), 10)] == [3]


def test_heldout_texts_are_there() -> None:
    assert all(len(texts.heldout(name)) > 2000 for name in texts.HELDOUT)
    assert len(texts.tokenizer_cases()) >= 45


@pytest.mark.parametrize(
    ("ids", "bos", "count"), [([1, 1, 5], 1, 2), ([1, 5, 1], 1, 1), ([5], 1, 0), ([1], 1, 1), ([5], None, 0)]
)
def test_leading_bos(ids: list[int], bos: int | None, count: int) -> None:
    assert leading_bos(ids, bos) == count


class Words:
    """An adapter whose tokens are characters."""

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return ([0] if add_special_tokens else []) + [ord(letter) for letter in text]

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return "".join(map(chr, ids))

    def render_chat(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return "".join(message["content"] for message in messages)


class DropsTheLast(Words):
    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return super().encode(text, add_special_tokens)[:-1]


class Breaks(Words):
    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        raise KeyError(ids[0])


def truth() -> dict[str, list[object]]:
    words = Words()
    found = ["abc", "d"]
    return {
        "texts": list(found),
        "plain": [words.encode(text, False) for text in found],
        "with_special": [words.encode(text) for text in found],
        "decoded": list(found),
        "chats": [{"text": words.render_chat(chat), "ids": []} for chat in texts.chats()],
        "specials": [],
        "bos": [],
    }


@pytest.mark.parametrize(("adapter", "mismatches"), [(Words(), 0), (DropsTheLast(), 4), (Breaks(), 2)])
def test_the_adapter_is_compared(adapter: Adapter, mismatches: int) -> None:
    found = list(compare_adapter(adapter, truth(), ["one", "two"]))
    assert len(found) == mismatches


def test_a_broken_adapter_is_a_broken_workspace(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="does not exist"):
        load_adapter(tmp_path / "tokenizer_adapter.py", tmp_path)
    (tmp_path / "tokenizer_adapter.py").write_text("class TokenizerAdapter:\n    pass\n")
    with pytest.raises(WorkspaceError, match="does not load"):
        load_adapter(tmp_path / "tokenizer_adapter.py", tmp_path)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("ModuleNotFoundError: No module named 'pandas'\n", "pandas"),
        ("ImportError: Please install vllm[bench] for benchmark support\n", "vllm[bench]"),
        ("ValueError: Initial test run failed\n", None),
    ],
)
def test_an_absent_package_is_told_from_a_failure(tmp_path: Path, text: str, part: str | None) -> None:
    (tmp_path / "log").write_text(text)
    assert absent_part(tmp_path / "log") == part
