"""The running server: AUTOADAPTER_MODEL=FOLDER AUTOADAPTER_BASE_URL=URL python -m pytest tests/test_server.py.

Written by AutoAdapter 0.1.0 from adapter/tests/test_server.py.j2; change the plan, not this file.
"""

from pathlib import Path

import httpx
from tokenizer_adapter import TokenizerAdapter

SERVED_NAME = "example/small-dense"
MAX_MODEL_LEN = 2048


def test_the_server_is_healthy(server: httpx.Client) -> None:
    """The engine lives."""
    assert server.get("/health").status_code == httpx.codes.OK


def test_the_model_is_listed_as_planned(server: httpx.Client) -> None:
    """Name and context are those of the plan."""
    models = server.get("/v1/models").raise_for_status().json()["data"]
    lengths = {model["id"]: model["max_model_len"] for model in models}
    assert SERVED_NAME in lengths
    assert lengths[SERVED_NAME] == MAX_MODEL_LEN


def test_an_unknown_model_is_refused(server: httpx.Client) -> None:
    """The name matters: a typo is 404, not an answer."""
    body = {"model": SERVED_NAME + "-no-such-model", "prompt": "Hello", "max_tokens": 1}
    assert server.post("/v1/completions", json=body).status_code == httpx.codes.NOT_FOUND


def test_the_server_tokenizes_as_the_adapter(server: httpx.Client, model_folder: Path, corpus: dict[str, str]) -> None:
    """Prompt by prompt the same ids."""
    adapter = TokenizerAdapter.from_folder(model_folder)
    for name, text in corpus.items():
        answer = server.post("/tokenize", json={"model": SERVED_NAME, "prompt": text}).raise_for_status().json()
        assert answer["tokens"] == adapter.encode(text), name


def test_a_completion_counts_its_tokens(server: httpx.Client) -> None:
    """Usage adds up and the answer ends for a known reason."""
    body = {"model": SERVED_NAME, "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
    answer = server.post("/v1/completions", json=body).raise_for_status().json()
    usage = answer["usage"]
    assert answer["choices"][0]["text"].strip()
    assert answer["choices"][0]["finish_reason"] in ("stop", "length")
    assert 1 <= usage["completion_tokens"] <= 8
    assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"]


def test_a_prompt_beyond_the_context_is_refused(server: httpx.Client) -> None:
    """Too long is a clear 400, not a cut prompt."""
    body = {"model": SERVED_NAME, "prompt": "a " * (MAX_MODEL_LEN + 16), "max_tokens": 1}
    assert server.post("/v1/completions", json=body).status_code == httpx.codes.BAD_REQUEST


CHAT = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]


def test_the_server_renders_chats_as_the_adapter(server: httpx.Client, model_folder: Path) -> None:
    """One chat template, the same ids."""
    adapter = TokenizerAdapter.from_folder(model_folder)
    body = {"model": SERVED_NAME, "messages": CHAT, "add_generation_prompt": True}
    answer = server.post("/tokenize", json=body).raise_for_status().json()
    assert answer["tokens"] == adapter.encode(adapter.render_chat(CHAT), add_special_tokens=False)


def test_a_chat_is_answered(server: httpx.Client) -> None:
    """Non-empty, and ended by a stop token or by the limit."""
    body = {"model": SERVED_NAME, "messages": CHAT, "max_tokens": 64, "temperature": 0}
    choice = server.post("/v1/chat/completions", json=body).raise_for_status().json()["choices"][0]
    message = choice["message"]
    assert (message.get("content") or message.get("reasoning") or "").strip()
    assert choice["finish_reason"] in ("stop", "length")
