"""A check that compared nothing, asked nothing or could not tell does not pass."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autoadapter.artifacts import CheckResult, Status
from autoadapter.artifacts.model_profile import TokenizerTraits
from autoadapter.engine.client import EngineClient, Generation
from autoadapter.verify import texts
from autoadapter.verify.checks import tokenizer
from autoadapter.verify.checks.memory import MemoryCheck
from autoadapter.verify.checks.quality import QualityCheck, Side, Window, by_server
from autoadapter.verify.checks.tokenizer import TokenizerCheck
from autoadapter.verify.context import CheckContext
from autoadapter.verify.engines import Role
from autoadapter.verify.scale import SCALES
from tests.unit.verify import verify_samples

WINDOWS = [Window("prose", list(range(301)))]
GOOD = Generation(tuple(range(40)), "an answer", "stop")


class Answers:
    """A server whose log-probabilities are right, and whose answers are given."""

    def __init__(self, *answers: Generation) -> None:
        self.left = list(answers)

    def prompt_logprobs(self, ids: list[int], top: int) -> list[dict[int, float]]:
        return [{token: -2.0} for token in ids[1:]]

    def chat(self, messages: object, max_tokens: int) -> Generation:
        return self.left.pop()


def quality(tmp_path: Path, before: Side, *answers: Generation) -> CheckResult:
    request = verify_samples.request(tmp_path, tmp_path / "reference", tmp_path / "served", None)  # type: ignore[arg-type]
    client = Answers(*answers)
    parts = {"request": request, "scale": SCALES[request.depth], "client": lambda role: client}
    context = cast(CheckContext, SimpleNamespace(**parts, progress=lambda *words: None))
    return QualityCheck()._verdict(context, WINDOWS, before, by_server(context, Role.CANDIDATE, WINDOWS))


def original(degenerate: int | None) -> Side:
    return Side([[-2.0] * 299 + [-2.001]], [[1] * 300], degenerate, 160)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([GOOD] * 4, None),
        ([GOOD] * 3 + [Generation((), "", "stop")], "degenerate_answers is 1"),
        ([GOOD] * 3 + [Generation((2,), "", "stop")], "degenerate_answers is 1"),
        ([Generation((), "a server that keeps its ids to itself", "stop")] * 4, "answered_tokens is 0"),
    ],
)
def test_an_answer_without_tokens_is_no_answer(tmp_path: Path, answers: list[Generation], says: str | None) -> None:
    result = quality(tmp_path, original(0), *answers)
    assert result.status is (Status.FAILED if says else Status.PASSED)
    assert (says or "") in result.reason


@pytest.mark.parametrize("candidate", [0, 3])
def test_an_original_that_loops_is_no_yardstick(tmp_path: Path, candidate: int) -> None:
    loop = Generation((5,) * 40, "a a a", "length")
    result = quality(tmp_path, original(3), *[loop] * candidate, *[GOOD] * (4 - candidate))
    assert result.status is Status.FAILED
    assert "reference_degenerate_answers is 3, must be at most 2" in result.reason
    assert result.reason.startswith("degenerate_answers is 3, must be at most 2") is (candidate == 3)


def traits(**changes: object) -> TokenizerTraits:
    return verify_samples.profile().tokenizer.model_copy(update=changes)


def truth(**changes: Any) -> dict[str, Any]:
    chats = [{"text": "", "ids": [1, 5]} for _ in texts.chats()]
    known = {"texts": ["abc"], "plain": [[5, 6, 7]], "with_special": [[1, 5, 6, 7]], "decoded": ["abc"]}
    return {**known, "chats": chats, "specials": ["<|im_end|>"], "bos": 1, "stop": [2], **changes}


@pytest.mark.parametrize(
    ("said", "known", "says"),
    [
        ({}, {}, None),
        ({"stop": [2, 7]}, {}, "missing_stop_ids is 1"),
        ({"chats": [None, None]}, {}, "conversations is 0"),
        ({"chats": []}, {}, "conversations is 0"),
        ({"chats": []}, {"has_chat_template": False}, None),
        ({"specials": []}, {}, "special_tokens is 0"),
        ({"specials": []}, {"special_tokens": ()}, None),
        ({"texts": []}, {}, "texts is 0"),
        ({"chats": [{"text": "", "ids": [1, 1, 5]}]}, {}, "leading_bos is 2"),
    ],
)
def test_the_tokenizer_is_compared_on_something(
    said: dict[str, Any], known: dict[str, object], says: str | None
) -> None:
    result = TokenizerCheck()._verdict(truth(**said), [], [], traits(**known))
    assert result.status is (Status.FAILED if says else Status.PASSED)
    assert (says or "") in result.reason


class Echo:
    """Adapter and server at once: says what the truth says, but for one slip."""

    def __init__(self, slip: int = 0) -> None:
        self.slip = slip

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [1, 5, 6, 7] if add_special_tokens else [5, 6, 7]

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return "abc"

    def render_chat(self, messages: object, add_generation_prompt: bool = True) -> str:
        return ""

    def tokenize(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return [token + self.slip for token in self.encode(text, add_special_tokens)]

    def tokenize_chat(self, messages: object) -> list[int]:
        return [1, 5]


@pytest.mark.parametrize(("slip", "status"), [(0, Status.PASSED), (1, Status.FAILED)])
def test_the_server_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slip: int, status: Status) -> None:
    """A right adapter does not make up for a server that splits text in its own way."""
    request = verify_samples.request(tmp_path, tmp_path, tmp_path, None)  # type: ignore[arg-type]
    monkeypatch.setattr(texts, "tokenizer_cases", dict)
    monkeypatch.setattr(tokenizer, "load_adapter", lambda path, model: Echo())
    worker: Callable[..., dict[str, Any]] = lambda script, asked: truth()  # noqa: E731
    context = SimpleNamespace(request=request, client=lambda role: Echo(slip), worker=worker)
    result = TokenizerCheck().run(cast(CheckContext, context))
    assert result.status is status
    assert result.measured["server_mismatches"] == 2 * slip


@pytest.mark.parametrize(("share", "status"), [(1.0, Status.PASSED), (0.7, Status.FAILED), (1.4, Status.FAILED)])
def test_memory_errs_on_neither_side(tmp_path: Path, share: float, status: Status) -> None:
    request = verify_samples.request(tmp_path, tmp_path, tmp_path, SimpleNamespace(platform="cpu"))  # type: ignore[arg-type]
    observed = int(request.plan.memory.kv_tokens * share)
    run = SimpleNamespace(kv_cache_tokens=observed)
    client = cast(EngineClient, SimpleNamespace(max_model_len=lambda: 2048))
    engines = SimpleNamespace(run_of=lambda role: run)
    context = SimpleNamespace(request=request, engines=engines, client=lambda role: client)
    result = MemoryCheck().run(cast(CheckContext, context))
    assert result.status is status
    assert ("relative_error" in result.reason) is (status is Status.FAILED)
