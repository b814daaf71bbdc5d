"""The report of `test` shows what `analyze` found, and stands without it."""

from html.parser import HTMLParser
from pathlib import Path

from model_sketch import sketch_profile, sketch_sizing

from autoadapter.artifacts import Depth, VerificationReport
from autoadapter.hardware import this_machine
from autoadapter.rendering import render
from autoadapter.rendering.model_section import ModelSection
from autoadapter.verify.report_view import ReportView
from tests.unit.verify import verify_samples


def report() -> VerificationReport:
    return VerificationReport(
        tool_version="0",
        plan_digest="0" * 64,
        optimized_digest="0" * 64,
        depth=Depth.SMOKE,
        started_at="2026-01-01T00:00:00+00:00",
        route=verify_samples.plan("as_is").route,
        machine=this_machine(),
        engine_runs=(),
        checks=(),
        findings=(),
    )


def headings(text: str) -> list[str]:
    found: list[str] = []

    class Reader(HTMLParser):
        inside = False

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.inside = tag in ("h2", "h3")

        def handle_endtag(self, tag: str) -> None:
            self.inside = False

        def handle_data(self, data: str) -> None:
            if self.inside:
                found.append(data)

    Reader().feed(text)
    return found


def test_the_section_stands_in_the_report(tmp_path: Path) -> None:
    section = ModelSection.of(sketch_profile(), [sketch_sizing()])
    found = headings(render(ReportView.of(report(), verify_samples.plan("as_is"), section)))
    assert found.index("The model as it came, and what it needs") < found.index("What was tested, and where")
    assert {"Layers", "Memory on h100:2", "Where the time goes on h100:2"} <= set(found)


def test_without_a_section_the_report_is_as_before() -> None:
    found = headings(render(ReportView.of(report(), verify_samples.plan("as_is"))))
    assert "Layers" not in found and "What was tested, and where" in found
