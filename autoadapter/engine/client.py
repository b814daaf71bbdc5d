"""Asks a running vLLM server, in vLLM's own words: completions with log-probabilities, chat, tokenize, metrics."""

import functools
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import httpx

from autoadapter.errors import EngineError

Messages = list[dict[str, str]]
TopLogprobs = dict[int, float]
"""Token id → natural-log probability, for one position."""

P = ParamSpec("P")
R = TypeVar("R")
_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?P<labels>\{.*\})? (?P<value>\S+)$")


@dataclass(frozen=True)
class Generation:
    """What a completion produced. `top` is empty unless log-probabilities were asked for."""

    ids: tuple[int, ...]
    text: str
    finish_reason: str | None
    top: tuple[TopLogprobs, ...] = ()


@dataclass(frozen=True)
class StreamedAnswer:
    """One streamed request as a client lives through it. Times are seconds from sending it."""

    status: int
    text: str = ""
    finish_reason: str | None = None
    done: bool = False
    """Whether the stream ended with `[DONE]`."""
    first_token_seconds: float | None = None
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class Metrics:
    """A reading of `/metrics`."""

    samples: dict[str, dict[str, float]] = field(default_factory=dict)
    """Metric name → label text → value."""

    def total(self, name: str, containing: str = "") -> float:
        """Sum over the series of `name` whose label text contains `containing`; 0 when there is none."""
        series = self.samples.get(name, {})
        return sum(value for labels, value in series.items() if containing in labels)


def parse_metrics(text: str) -> Metrics:
    """Read the Prometheus text format, comments and malformed lines skipped."""
    samples: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match:
            samples.setdefault(match["name"], {})[match["labels"] or ""] = float(match["value"])
    return Metrics(samples)


def _reads(method: Callable[P, R]) -> Callable[P, R]:
    """An answer without the fields that the method reads is the engine's fault, not a crash of ours."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            what = f"{type(error).__name__}: {error}"
            raise EngineError(f"vLLM's answer to {method.__name__} is not as expected.", cause=what) from error

    return guarded


class EngineClient:
    """HTTP client of one served model. Safe to use from several threads.

    Every method raises EngineError, with the server's own message, when the server refuses or does not answer.
    """

    def __init__(self, base_url: str, served_name: str, *, timeout: float = 600.0, api_key: str | None = None) -> None:
        """Describe where the server is.

        Args:
            base_url: scheme, host and port, without `/v1`.
            served_name: the name in requests, one of `served-model-name`.
            timeout: seconds to wait for any answer; a queue behind `max-num-seqs` counts.
            api_key: sent as a bearer token when given.
        """
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
        self.base_url = base_url
        self.served_name = served_name
        self._http = httpx.Client(base_url=base_url, timeout=timeout, headers=headers, limits=limits, trust_env=False)

    @_reads
    def models(self) -> tuple[str, ...]:
        """Names that the server answers to."""
        return tuple(str(model["id"]) for model in self._call("GET", "/v1/models")["data"])

    @_reads
    def max_model_len(self) -> int:
        """Tokens of prompt and answer together that the server accepts."""
        return int(self._call("GET", "/v1/models")["data"][0]["max_model_len"])

    @_reads
    def tokenize(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text, by the server's tokenizer."""
        body = {"prompt": text, "add_special_tokens": add_special_tokens}
        return [int(token) for token in self._call("POST", "/tokenize", body)["tokens"]]

    @_reads
    def tokenize_chat(self, messages: Messages, *, add_generation_prompt: bool = True) -> list[int]:
        """Token ids of a conversation, through the server's chat template."""
        body = {"messages": messages, "add_generation_prompt": add_generation_prompt}
        return [int(token) for token in self._call("POST", "/tokenize", body)["tokens"]]

    @_reads
    def prompt_logprobs(self, ids: list[int], top: int) -> list[TopLogprobs]:
        """Log-probabilities of a prompt's tokens given what is before them.

        Args:
            ids: the prompt, n tokens.
            top: how many of the likeliest tokens to list at each position (at most `max-logprobs`); 0 lists only the
                prompt's own token, which is always listed.

        Returns:
            n - 1 entries; entry i is about token i + 1.
        """
        body = {"prompt": ids, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": top}
        choice = self._call("POST", "/v1/completions", body)["choices"][0]
        listed = [entry for entry in choice["prompt_logprobs"] if entry is not None]
        if len(listed) != len(ids) - 1:
            raise EngineError(f"vLLM gave log-probabilities for {len(listed)} of {len(ids) - 1} positions.")
        return [{int(token): float(item["logprob"]) for token, item in entry.items()} for entry in listed]

    @_reads
    def generate(self, ids: list[int], max_tokens: int, *, logprobs: int = 0, ignore_eos: bool = False) -> Generation:
        """Greedy continuation of a prompt of token ids.

        Args:
            ids: the prompt.
            max_tokens: most tokens to generate.
            logprobs: how many of the likeliest tokens to list at each generated position; 0 lists none.
            ignore_eos: go on after an end-of-sequence token.
        """
        body: dict[str, Any] = {"prompt": ids, "max_tokens": max_tokens, "temperature": 0.0, "ignore_eos": ignore_eos}
        body |= {"return_token_ids": True, "return_tokens_as_token_ids": True}
        if logprobs:
            body["logprobs"] = logprobs
        choice = self._call("POST", "/v1/completions", body)["choices"][0]
        listed = (choice.get("logprobs") or {}).get("top_logprobs") or []
        top = tuple({_token_id(key): float(value) for key, value in entry.items()} for entry in listed)
        ids_out = tuple(int(token) for token in choice["token_ids"])
        return Generation(ids_out, str(choice["text"]), choice["finish_reason"], top)

    @_reads
    def chat(self, messages: Messages, max_tokens: int, *, temperature: float = 0.0) -> Generation:
        """The assistant's answer to a conversation; reasoning text, where a parser split it off, comes first."""
        body = {"messages": messages, "max_tokens": max_tokens, "temperature": temperature, "return_token_ids": True}
        choice = self._call("POST", "/v1/chat/completions", body)["choices"][0]
        message = choice["message"]
        text = (message.get("reasoning") or "") + (message.get("content") or "")
        return Generation(tuple(choice.get("token_ids") or ()), text, choice["finish_reason"])

    def stream(self, prompt: str | Messages, max_tokens: int) -> StreamedAnswer:
        """Stream an answer. Never raises for what the server or the network does: that is the evidence.

        Args:
            prompt: a text for `/v1/completions`, or a conversation for `/v1/chat/completions`.
            max_tokens: most tokens to generate.
        """
        path, key = ("/v1/completions", "prompt") if isinstance(prompt, str) else ("/v1/chat/completions", "messages")
        body = {"model": self.served_name, key: prompt, "max_tokens": max_tokens, "stream": True, "temperature": 0.0}
        began = time.monotonic()
        try:
            with self._http.stream("POST", path, json=body) as response:
                if response.status_code != httpx.codes.OK:
                    response.read()
                    why = _message(response)
                    return StreamedAnswer(response.status_code, seconds=time.monotonic() - began, error=why)
                return _read_stream(response, began)
        except (httpx.HTTPError, ValueError) as error:
            return StreamedAnswer(0, seconds=time.monotonic() - began, error=f"{type(error).__name__}: {error}")

    def metrics(self) -> Metrics:
        """All Prometheus samples of the server."""
        return parse_metrics(self._send("GET", "/metrics", None).text)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self._send(method, path, {"model": self.served_name, **body} if body is not None else None)
        try:
            document = answer.json()
        except ValueError:
            raise EngineError(f"vLLM answered {path} with something that is not JSON.") from None
        if not isinstance(document, dict):
            raise EngineError(f"vLLM answered {path} with JSON that is not an object.")
        return document

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        try:
            response = self._http.request(method, path, json=body)
        except httpx.TimeoutException:
            raise EngineError(f"vLLM did not answer {path} in time.") from None
        except httpx.HTTPError as error:
            raise EngineError(f"vLLM at {self.base_url} cannot be reached: {error}.") from None
        if response.status_code != httpx.codes.OK:
            raise EngineError(f"vLLM refused {path} with status {response.status_code}.", cause=_message(response))
        return response


def _read_stream(response: httpx.Response, began: float) -> StreamedAnswer:
    pieces: list[str] = []
    first: float | None = None
    finish: str | None = None
    done = False
    for line in response.iter_lines():
        data = line.removeprefix("data: ")
        if data == line:
            continue
        if data == "[DONE]":
            done = True
            continue
        event = json.loads(data)
        if "error" in event:
            return StreamedAnswer(200, "".join(pieces), error=str(event["error"]), seconds=time.monotonic() - began)
        for choice in event["choices"]:
            piece = _piece(choice)
            if piece and first is None:
                first = time.monotonic() - began
            pieces.append(piece)
            finish = choice.get("finish_reason") or finish
    return StreamedAnswer(200, "".join(pieces), finish, done, first, time.monotonic() - began)


def _piece(choice: dict[str, Any]) -> str:
    delta = choice.get("delta") or {}
    return (choice.get("text") or "") + (delta.get("reasoning") or "") + (delta.get("content") or "")


def _message(response: httpx.Response) -> str:
    """The server's own words: OpenAI's error object, else the start of the body."""
    try:
        document = response.json()
        inner = document.get("error", document)
        return str(inner["message"] if "message" in inner else inner.get("detail", inner))
    except (ValueError, AttributeError, TypeError, KeyError):
        return response.text[:300]


def _token_id(key: str) -> int:
    """`token_id:42` → 42, the form that `return_tokens_as_token_ids` asks for."""
    return int(key.removeprefix("token_id:"))
