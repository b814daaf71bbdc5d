"""EngineClient against a server that answers as vLLM 0.32 does."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from autoadapter.engine.client import EngineClient, parse_metrics
from autoadapter.errors import EngineError

Answers = dict[str, tuple[int, str]]
COMPLETION = {
    "choices": [
        {
            "text": " world", "finish_reason": "length", "token_ids": [7, 8],
            "logprobs": {"top_logprobs": [{"token_id:7": -0.5, "token_id:9": -1.5}, {"token_id:8": -0.25}]},
            "prompt_logprobs": [None, {"5": {"logprob": -2.0}, "6": {"logprob": -1.0}}],
        }
    ]
}  # fmt: skip
STREAM = (
    'data: {"choices":[{"delta":{"content":"He"}}]}\n\n'
    'data: {"choices":[{"delta":{"content":"y"},"finish_reason":"stop"}]}\n\n'
)


@pytest.fixture
def answers() -> Answers:
    return {}


@pytest.fixture
def asked() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def client(answers: Answers, asked: list[dict[str, Any]]) -> Iterator[EngineClient]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.do_GET()

        def do_GET(self) -> None:
            status, text = answers[self.path]
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with EngineClient(f"http://127.0.0.1:{server.server_port}", "sample", timeout=5.0) as made:
        yield made
    server.shutdown()
    server.server_close()


def test_prompt_logprobs(client: EngineClient, answers: Answers, asked: list[dict[str, Any]]) -> None:
    answers["/v1/completions"] = (200, json.dumps(COMPLETION))
    assert client.prompt_logprobs([4, 5], top=20) == [{5: -2.0, 6: -1.0}]
    assert asked[0]["model"] == "sample"
    assert asked[0]["prompt"] == [4, 5]
    assert asked[0]["prompt_logprobs"] == 20


def test_a_position_without_logprobs_is_an_error(client: EngineClient, answers: Answers) -> None:
    answers["/v1/completions"] = (200, json.dumps(COMPLETION))
    with pytest.raises(EngineError, match="1 of 2 positions"):
        client.prompt_logprobs([4, 5, 6], top=20)


@pytest.mark.parametrize(
    "body", ['{"choices": []}', '{"choices": [{"prompt_logprobs": null}]}', "[]", '{"object": "x"}']
)
def test_an_answer_of_another_shape_is_an_engine_error(client: EngineClient, answers: Answers, body: str) -> None:
    answers["/v1/completions"] = (200, body)
    with pytest.raises(EngineError):
        client.prompt_logprobs([4, 5], top=20)


def test_generate_reads_ids_and_top(client: EngineClient, answers: Answers) -> None:
    answers["/v1/completions"] = (200, json.dumps(COMPLETION))
    made = client.generate([4], 2, logprobs=2)
    assert made.ids == (7, 8)
    assert made.top == ({7: -0.5, 9: -1.5}, {8: -0.25})


def test_the_servers_own_message_is_quoted(client: EngineClient, answers: Answers) -> None:
    message = "This model's maximum context length is 2048 tokens."
    answers["/v1/completions"] = (400, json.dumps({"error": {"message": message, "code": 400}}))
    with pytest.raises(EngineError, match="status 400") as caught:
        client.generate([1] * 4000, 1)
    assert caught.value.cause == message


def test_not_json_and_not_there(client: EngineClient, answers: Answers) -> None:
    answers["/tokenize"] = (200, "<html>a proxy</html>")
    with pytest.raises(EngineError, match="not JSON"):
        client.tokenize("text")
    with pytest.raises(EngineError, match="cannot be reached"):
        EngineClient("http://127.0.0.1:9", "sample", timeout=2.0).tokenize("text")


@pytest.mark.parametrize(
    ("text", "done", "error"),
    [
        (STREAM + "data: [DONE]\n\n", True, False),
        (STREAM, False, False),
        ('data: {"error": {"message": "engine died"}}\n\n', False, True),
        ("data: {not json\n\n", False, True),
    ],
)
def test_stream_keeps_what_happened(client: EngineClient, answers: Answers, text: str, done: bool, error: bool) -> None:
    answers["/v1/chat/completions"] = (200, text)
    answer = client.stream([{"role": "user", "content": "Hi"}], 4)
    assert (answer.done, answer.error is not None) == (done, error)
    if not error:
        assert (answer.text, answer.finish_reason) == ("Hey", "stop")
        assert answer.first_token_seconds is not None


def test_stream_does_not_raise_when_refused(client: EngineClient, answers: Answers) -> None:
    answers["/v1/completions"] = (503, json.dumps({"error": {"message": "queue full"}}))
    answer = client.stream("Hi", 4)
    assert (answer.status, answer.error, answer.done) == (503, "queue full", False)


def test_metrics_are_summed_by_label() -> None:
    metrics = parse_metrics(
        "# HELP vllm:request_success_total Count\n"
        'vllm:request_success_total{engine="0",finished_reason="stop"} 3.0\n'
        'vllm:request_success_total{engine="0",finished_reason="length"} 4.0\n'
        'vllm:request_success_total{engine="1",finished_reason="stop"} 1e+01\n'
        "process_open_fds 12.0\nnot a metric\n"
    )
    assert metrics.total("vllm:request_success_total") == 17.0
    assert metrics.total("vllm:request_success_total", 'finished_reason="stop"') == 13.0
    assert metrics.total("process_open_fds") == 12.0
    assert metrics.total("absent") == 0.0
