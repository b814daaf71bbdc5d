"""Charts draw what was measured."""

import pytest

from autoadapter.verify.charts import memory_charts
from autoadapter.verify.plots import HEIGHT, LEFT, TOP, WIDTH, Words, bars, nice_ceiling, shares, short

WORDS = Words("Title", "What it shows.", "ms")


def test_bars_are_proportional_and_inside() -> None:
    chart = bars(WORDS, ("p50", "p99"), [("a", [10.0, 20.0]), ("b", [0.0, 40.0])])
    heights = [bar.height for bar in chart.bars]
    assert heights[1] == pytest.approx(2 * heights[0])
    assert heights[3] == pytest.approx(4 * heights[0])
    assert heights[2] == 0
    assert all(LEFT <= bar.x and bar.x + bar.width <= WIDTH and bar.y >= TOP for bar in chart.bars)
    assert {bar.y + bar.height for bar in chart.bars} == {chart.base}
    assert chart.bars[3].tip == "b, p99: 40"


@pytest.mark.parametrize(("observed", "drawn"), [(1000, 0), (1009, 0), (1100, 1), (900, 1)])
def test_two_bars_that_look_alike_are_not_drawn(observed: int, drawn: int) -> None:
    error = abs(observed - 1000) / observed
    measured = {"kv_tokens_predicted": 1000, "kv_tokens_observed": observed, "relative_error": error}
    assert len(list(memory_charts(measured))) == drawn


def test_many_groups_keep_few_labels() -> None:
    chart = bars(WORDS, ("x",), [(str(at), [1.0]) for at in range(100)])
    assert len(chart.bars) == 100
    assert len(chart.x_ticks) <= 12


def test_nothing_measured_draws_no_bar() -> None:
    assert bars(WORDS, ("x",), []).bars == ()


def test_a_share_rises_to_one() -> None:
    (line,) = shares(WORDS, [("done", [1.0, 3.0, 2.0])]).lines
    points = [tuple(map(float, point.split(","))) for point in line.split()]
    assert points[0] == (LEFT, HEIGHT - 40)
    assert points[-1][1] == TOP
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)


@pytest.mark.parametrize(("value", "top"), [(0.9, 1.0), (1.0, 1.0), (1.1, 2.0), (230, 250), (46592, 50000), (0, 1.0)])
def test_axes_end_on_round_numbers(value: float, top: float) -> None:
    assert nice_ceiling(value) == pytest.approx(top)


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (46592, "46,592"), (0.02783, "0.0278"), (2, "2"), (True, "1")])
def test_numbers_are_short(value: float, text: str) -> None:
    assert short(value) == text
