"""Do transformers, the rendered adapter and the server turn the same text into the same tokens?"""

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from autoadapter.artifacts import CheckResult, Threshold
from autoadapter.artifacts.model_profile import TokenizerTraits
from autoadapter.engine.client import EngineClient, Messages
from autoadapter.errors import WorkspaceError
from autoadapter.verify import texts
from autoadapter.verify.context import CheckContext, concurrently
from autoadapter.verify.engines import Role
from autoadapter.verify.judge import failed, judged

COMPARED = "what was not tried was not compared"
EXACT = "the ids decide what the model sees: no difference is harmless"


class Adapter(Protocol):
    """What the rendered `tokenizer_adapter.py` offers."""

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Text to ids."""

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        """Ids to text."""

    def render_chat(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Conversation to text."""


@dataclass(frozen=True)
class Mismatch:
    """The first place where two sides differ."""

    case: str
    side: str
    expected: str
    got: str


class TokenizerCheck:
    """Ids, texts and rendered conversations must be equal on all three sides."""

    name = "tokenizer"
    title = "Tokenizer: transformers, adapter and server agree"
    needs = (Role.CANDIDATE,)

    def run(self, context: CheckContext) -> CheckResult:
        """Compare all cases and every special token in mid-text."""
        client = context.client(Role.CANDIDATE)
        model = Path(context.request.optimized.model_path)
        cases = texts.tokenizer_cases()
        request = {"model": str(model), "texts": list(cases.values()), "chats": texts.chats()}
        truth = context.worker("tokens", request)
        names = [*cases, *(f"special token {special}" for special in truth["specials"])]
        try:
            adapter = load_adapter(context.request.adapter / "tokenizer" / "tokenizer_adapter.py", model)
        except WorkspaceError as error:
            return failed(self, str(error))
        by_adapter = list(compare_adapter(adapter, truth, names))
        by_server = list(compare_server(client, truth, names))
        return self._verdict(truth, by_adapter, by_server, context.request.profile.tokenizer)

    def _verdict(
        self, truth: dict[str, Any], adapter: list[Mismatch], server: list[Mismatch], traits: TokenizerTraits
    ) -> CheckResult:
        missing_stop = set(truth["stop"]) - set(traits.stop_token_ids)
        rendered = [chat for chat in truth["chats"] if chat is not None]
        first = next(iter(adapter + server), None)
        doubled = max((leading_bos(chat["ids"], truth["bos"]) for chat in rendered), default=0)
        thresholds = [
            Threshold(name="adapter_mismatches", limit=0, direction="==", source=EXACT),
            Threshold(name="server_mismatches", limit=0, direction="==", source=EXACT),
            Threshold(name="leading_bos", limit=1, direction="<=", source="a doubled BOS shifts every answer"),
            Threshold(name="missing_stop_ids", limit=0, direction="==", source="generation_config.json's eos_token_id"),
            *coverage_thresholds(traits),
        ]
        summary = (
            f"{len(truth['texts'])} texts and {len(rendered)} conversations give the same ids on all three sides; "
            f"{len(truth['specials'])} special tokens were tried in mid-text."
        )
        result = judged(
            self,
            {
                "texts": len(truth["texts"]),
                "special_tokens": len(truth["specials"]),
                "conversations": len(rendered),
                "conversations_refused": len(truth["chats"]) - len(rendered),
                "tokens": sum(len(ids) for ids in truth["plain"]),
                "adapter_mismatches": len(adapter),
                "server_mismatches": len(server),
                "leading_bos": doubled,
                "missing_stop_ids": len(missing_stop),
                "stop_ids": truth["stop"],
                "first_mismatch": None if first is None else dict(vars(first)),
            },
            thresholds,
            summary,
        )
        if first is None:
            return result
        where = f" First: {first.side}, {first.case}: expected {first.expected}, got {first.got}."
        return result.model_copy(update={"reason": result.reason + where})


def coverage_thresholds(traits: TokenizerTraits) -> list[Threshold]:
    """How much must have been compared, by what the analysis found: agreement about nothing is no agreement."""
    known = {token.text for token in traits.special_tokens if token.id is not None}
    least = {"texts": 1, "conversations": int(traits.has_chat_template), "special_tokens": len(known)}
    return [
        Threshold(name=name, limit=number, direction=">=", source=COMPARED) for name, number in least.items() if number
    ]


def load_adapter(path: Path, model: Path) -> Adapter:
    """The rendered adapter over the tokenizer of `model`.

    Raises:
        WorkspaceError: the file is missing or does not load; generated code that breaks is the bundle's fault.
    """
    spec = importlib.util.spec_from_file_location("autoadapter_rendered_tokenizer_adapter", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise WorkspaceError(f"{path} does not exist.", hint="autoadapter generate --force")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return cast(Adapter, module.TokenizerAdapter.from_folder(model))
    except Exception as error:
        raise WorkspaceError(f"{path} does not load: {error}.", hint="autoadapter generate --force") from error


def compare_adapter(adapter: Adapter, truth: dict[str, Any], names: list[str]) -> Iterator[Mismatch]:
    """Where the adapter differs from transformers."""
    rows = zip(names, truth["texts"], truth["plain"], truth["with_special"], truth["decoded"], strict=True)
    for name, text, plain, with_special, decoded in rows:
        yield from _differs(name, "adapter encode", plain, attempt(adapter.encode, text, add_special_tokens=False))
        yield from _differs(
            name, "adapter encode with specials", with_special, attempt(adapter.encode, text, add_special_tokens=True)
        )
        yield from _differs(name, "adapter decode", decoded, attempt(adapter.decode, plain, skip_special_tokens=False))
    for name, messages, chat in accepted_chats(truth):
        yield from _differs(name, "adapter chat", chat["text"], attempt(adapter.render_chat, messages))


def compare_server(client: EngineClient, truth: dict[str, Any], names: list[str]) -> Iterator[Mismatch]:
    """Where the server differs from transformers."""
    plain = concurrently(partial(client.tokenize, add_special_tokens=False), truth["texts"])
    special = concurrently(client.tokenize, truth["texts"])
    for at, name in enumerate(names):
        yield from _differs(name, "server encode", truth["plain"][at], plain[at])
        yield from _differs(name, "server encode with specials", truth["with_special"][at], special[at])
    for name, messages, chat in accepted_chats(truth):
        yield from _differs(name, "server chat", chat["ids"], client.tokenize_chat(messages))


def accepted_chats(truth: dict[str, Any]) -> Iterator[tuple[str, Messages, dict[str, Any]]]:
    """Conversations that the template takes: name, messages, and what transformers makes of them."""
    for number, (messages, chat) in enumerate(zip(texts.chats(), truth["chats"], strict=False)):
        if chat is not None:
            yield f"conversation {number}", messages, chat


def attempt(function: Callable[..., object], *arguments: object, **options: object) -> object:
    """What generated code returns, or what it raised: a crash is a mismatch, not the end of the check."""
    try:
        return function(*arguments, **options)
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"


def leading_bos(ids: list[int], bos: int | None) -> int:
    """How many BOS tokens stand at the start."""
    if bos is None:
        return 0
    return next((index for index, token in enumerate(ids) if token != bos), len(ids))


def _differs(case: str, side: str, expected: object, got: object) -> Iterator[Mismatch]:
    got = list(got) if isinstance(got, tuple) else got
    if got != expected:
        yield Mismatch(case, side, *_around(expected, got))


def _around(expected: object, got: object) -> tuple[str, str]:
    """Both sides from a little before the first difference, short enough to print."""
    if not (isinstance(expected, list | str) and isinstance(got, list | str)):
        return repr(expected)[:120], repr(got)[:120]
    at = next((i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b), min(len(expected), len(got)))
    start = max(at - 2, 0)
    return repr(expected[start : at + 8]), repr(got[start : at + 8])
