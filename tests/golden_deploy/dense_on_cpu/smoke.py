#!/usr/bin/env python3
"""Asks a running server of this bundle five questions. Needs Python 3.9 and nothing else; exits 0 or 3."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

MODEL = "tiny-1b-instruct"
CAN_CHAT = True
PROMPT = "The capital of France is"
UNUSUAL = "Z\u00fcrich, \u6771\u4eac \U0001f680"
LOOPBACK = ("localhost", "127.0.0.1", "0.0.0.0", "::1")


class Skipped(Exception):
    """The question does not apply here."""


class Server:
    """One server, and how long an answer may take."""

    def __init__(self, base_url: str, timeout: float) -> None:
        self.base_url = base_url.rstrip("/")
        self.timeout = timeout
        local = urllib.parse.urlsplit(base_url).hostname in LOOPBACK
        self.opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))
        key = os.environ.get("VLLM_API_KEY")
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}

    def ask(self, path: str, body: dict[str, Any] | None = None) -> str:
        """The answer's text; an HTTP error is an exception that quotes it."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base_url + path, data=data, headers=self.headers)
        try:
            with self.opener.open(request, timeout=self.timeout) as answer:
                text: str = answer.read().decode()
                return text
        except urllib.error.HTTPError as error:
            said = error.read(300).decode(errors="replace")
            if path in ("/tokenize", "/detokenize") and error.code in (403, 404):
                raise Skipped(f"a gateway hides {path}") from None
            raise ValueError(f"HTTP {error.code} from {path}: {said}") from None


def health(server: Server) -> str:
    """Is it up?"""
    server.ask("/health")
    return "200 from /health"


def models(server: Server) -> str:
    """Does it serve this model?"""
    served = [row["id"] for row in json.loads(server.ask("/v1/models"))["data"]]
    if MODEL not in served:
        raise ValueError(f"it serves {served}, not {MODEL!r}")
    return f"serves {MODEL!r}"


def completion(server: Server) -> str:
    """Does it continue a text?"""
    body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 16, "temperature": 0}
    answer = json.loads(server.ask("/v1/completions", body))
    return said(answer["choices"][0]["text"], answer)


def chat(server: Server) -> str:
    """Does it answer a message?"""
    if not CAN_CHAT:
        raise Skipped("the model has no chat template")
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    body = {"model": MODEL, "messages": messages, "max_tokens": 32, "temperature": 0}
    answer = json.loads(server.ask("/v1/chat/completions", body))
    message = answer["choices"][0]["message"]
    return said(message.get("content") or message.get("reasoning") or message.get("reasoning_content") or "", answer)


def tokenization(server: Server) -> str:
    """Do tokens decode to the text that they came from? A vocabulary without these characters is no failure."""
    body = {"model": MODEL, "prompt": UNUSUAL, "add_special_tokens": False}
    tokens = json.loads(server.ask("/tokenize", body))["tokens"]
    back = json.loads(server.ask("/detokenize", {"model": MODEL, "tokens": tokens}))["prompt"]
    unknown = "\ufffd" in back or "unk" in back.lower()
    if not tokens or (back.strip() != UNUSUAL and not unknown):
        raise ValueError(f"{UNUSUAL!r} came back from {len(tokens)} tokens as {back!r}")
    return f"{len(tokens)} tokens there and back: {back!r}"


def said(text: str, answer: dict[str, Any]) -> str:
    """What was said; nothing is a failure."""
    tokens = answer["usage"]["completion_tokens"]
    if not text.strip() or tokens < 1:
        raise ValueError(f"an empty answer of {tokens} tokens")
    return f"{tokens} tokens: {text!r}"


QUESTIONS = (health, models, completion, chat, tokenization)
BROKEN = (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, AttributeError)


def check(question: Any, server: Server) -> dict[str, Any]:
    """One row of the result."""
    began = time.monotonic()
    try:
        status, reason = "passed", question(server)
    except Skipped as why:
        status, reason = "not_run", str(why)
    except BROKEN as error:
        status, reason = "failed", f"{type(error).__name__}: {error}"
    seconds = round(time.monotonic() - began, 3)
    return {"name": question.__name__, "status": status, "reason": reason, "seconds": seconds}


def main() -> int:
    """Ask, print, tell by the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", default="http://127.0.0.1:8000")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds an answer may take")
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    arguments = parser.parse_args()
    server = Server(arguments.base_url, arguments.timeout)
    checks = [check(QUESTIONS[0], server)]
    if checks[0]["status"] == "failed":
        print(f"No server answers at {server.base_url}: the other questions were not asked.", file=sys.stderr)
    else:
        checks += [check(question, server) for question in QUESTIONS[1:]]
    passed = all(row["status"] != "failed" for row in checks)
    if arguments.json:
        print(json.dumps({"base_url": server.base_url, "model": MODEL, "passed": passed, "checks": checks}))
    else:
        for row in checks:
            print(f"{row['status']:<8} {row['name']:<13} {row['reason']}")
    return 0 if passed else 3


if __name__ == "__main__":
    sys.exit(main())
