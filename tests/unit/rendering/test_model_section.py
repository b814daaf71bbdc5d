"""The section on a model: what is drawn is what was counted, and no name from a model becomes markup."""

import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from model_sketch import GIB, layout, sketch_cost, sketch_profile, sketch_sizing, sketch_structure

from autoadapter.artifacts import CacheEntry, Finding, LayerGroup, Level, ModelStructure, WeightShares
from autoadapter.artifacts.sizing import OperatorCost
from autoadapter.rendering import render
from autoadapter.rendering.cost_table import cost_tables, duration
from autoadapter.rendering.layer_map import MOST_CELLS, LayerMap
from autoadapter.rendering.layouts import refusals
from autoadapter.rendering.memory_bar import MemoryBar
from autoadapter.rendering.memory_parts import memory_parts
from autoadapter.rendering.model_section import AnalysisView, ModelSection, write_analysis_page
from autoadapter.rendering.roofline import Roofline, power_of_ten
from autoadapter.rendering.words import cache_bytes_per_token, group_words, layer_numbers

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}"
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """A page's elements, that every one is closed in order, and what stands in attributes."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words += data

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


def page(name: str = "someone/hybrid-20b") -> str:
    return render(AnalysisView.of(sketch_profile(name), [sketch_sizing()]))


def test_the_page_is_well_formed_and_brings_nothing_along() -> None:
    parsed = Page(page())
    assert parsed.open == []
    assert not {"script", "link", "img", "iframe", "object"} & set(parsed.tags)
    assert not parsed.values("src") and not [value for value in parsed.values("href") if not value.startswith("#")]
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    labelled = {word for value in parsed.values("aria-labelledby") for word in value.split()}
    assert labelled <= set(ids)


def test_every_drawing_is_xml() -> None:
    drawings = re.findall(r"<svg.*?</svg>", page(), re.DOTALL)
    assert drawings
    for text in drawings:
        ET.fromstring(text)


def test_the_verdict_comes_first() -> None:
    words = Page(page()).words
    assert words.index("Will start") < words.index("Worth knowing") < words.index("Layers") < words.index("Memory on")


def test_one_cell_a_layer_in_order_and_coloured_by_kind() -> None:
    cells = LayerMap.of(sketch_structure()).cells
    assert [cell.number for cell in cells] == list(range(24))
    assert [cell.number for cell in cells if cell.mixer == "full_attention"] == [3, 7, 11, 15, 19, 23]
    assert [cell.number for cell in cells if cell.feed_forward == "dense"] == [0]
    assert "2.0 KiB a token" in cells[3].tip and "844.0 MiB of weights" in cells[3].tip
    assert "2.0 MiB a request" in cells[1].tip
    drawn = [value for value in Page(page()).values("class") if value.startswith("cell ")]
    assert drawn[3] == "cell m-full_attention f-moe" and len(drawn) == 24


def test_a_model_with_more_layers_than_a_page_holds_says_so() -> None:
    group = LayerGroup(layers=tuple(range(2000)), mixer="none", feed_forward="dense", weights=WeightShares())
    found = LayerMap.of(ModelStructure(groups=(group,), embedding_bytes=0, head_bytes=0, from_headers=False))
    assert len(found.cells) == MOST_CELLS
    assert found.left_out == 2000 - MOST_CELLS


def test_colours_have_a_rule_for_every_kind() -> None:
    style = page()
    for kind in ("full_attention", "sliding_attention", "chunked_attention", "state", "hybrid", "none"):
        assert f".m-{kind} {{" in style
    for kind in ("dense", "moe", "none"):
        assert f".f-{kind}::after" in style


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_every_colour(scheme: str) -> None:
    """WCAG AA: 4.5 to 1 for text of this size."""
    blocks = re.findall(r":root \{(.*?)\}", page(), re.DOTALL)
    light, dark = blocks[0] + blocks[2], blocks[1] + blocks[3]
    names = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light if scheme == "light" else dark))
    for colour in ("full", "sliding", "chunked", "state", "hybrid", "nothing"):
        assert contrast(names["on-cell"], names[colour]) >= 4.5, colour
    for word in ("warn", "good", "bad", "idle"):
        assert contrast(names[word], names[f"{word}-soft"]) >= 4.5, word
    assert contrast(names["soft"], names["card"]) >= 4.5
    assert contrast(names["full"], names["card"]) >= 3.0
    assert contrast(names["kv"], names["card"]) >= 3.0 if scheme == "dark" else 2.9


def test_memory_parts_sum_up_to_the_device() -> None:
    device = int(79.19 * GIB)
    parts = {part.kind: part.size for part in memory_parts(sketch_sizing(), layout(1, 20.1, 48.0))}
    assert sum(parts.values()) == device
    assert parts["weights"] == int(20.1 * GIB)
    assert parts["uncertain"] == pytest.approx(1.5 * GIB, rel=1e-6)
    assert parts["KV"] + parts["uncertain"] == int(48.7 * GIB)
    assert parts["free"] == pytest.approx(device * 0.1, rel=1e-6)


def test_on_a_cpu_the_pool_is_what_vllm_is_given() -> None:
    """The share of a GPU's memory does not speak of it: what is neither weights, overhead nor pool stays free."""
    parts = {part.kind: part.size for part in memory_parts(sketch_sizing("cpu", kind="cpu"), layout(1, 20.1, 20.0))}
    assert parts["KV"] == 20 * GIB and parts["uncertain"] == 0
    assert parts["overhead"] == pytest.approx(2.3 * GIB, rel=1e-6)
    assert parts["free"] == pytest.approx((79.19 - 20.1 - 20.0 - 2.3) * GIB, rel=1e-6)


def test_a_device_that_is_too_small_has_no_negative_parts() -> None:
    parts = memory_parts(sketch_sizing(), layout(1, 200.0, -3.0))
    assert all(part.size >= 0 for part in parts)
    assert MemoryBar.of(sketch_sizing(), layout(1, 200.0, -3.0), "TP1").segments


def test_bar_segments_fill_the_bar() -> None:
    sizing = sketch_sizing()
    part = ModelSection.of(sketch_profile(), [sizing]).sizing
    assert part is not None
    for bar in part.bars:
        assert sum(segment.percent for segment in bar.segments) == pytest.approx(100, abs=0.01)
    assert "KV cache 47.2–48.7 GiB" in page()


def test_refusals_are_told_once_a_reason() -> None:
    rows = (layout(3, 1, 0, reason="heads"), layout(5, 1, 0, reason="heads"), layout(8, 1, 0, reason="vocabulary"))
    assert list(refusals(rows)) == [("TP3, TP5", "heads"), ("TP8", "vocabulary")]


def test_without_a_layout_the_reason_stands_open() -> None:
    text = render(AnalysisView.of(sketch_profile(), [sketch_sizing(layouts=(layout(3, 1, 0, reason="heads"),))]))
    assert "No layout serves the model here." in text
    assert "<details open>" in text


def test_many_layouts_are_folded_and_none_is_lost() -> None:
    many = tuple(layout(power, 20.0 / power, 50.0) for power in range(1, 13))
    text = render(AnalysisView.of(sketch_profile(), [sketch_sizing(layouts=many)]))
    assert "4 more layouts" in text
    assert re.findall(r'data-name="layout">(TP\d+)<', text) == [f"TP{number}" for number in range(1, 13)]


def test_layouts_stand_in_the_sizings_order() -> None:
    rows = (layout(1, 20, 40, pipeline=2), layout(8, 3, 70), layout(4, 6, 60))
    text = render(AnalysisView.of(sketch_profile(), [sketch_sizing(layouts=rows, count=8)]))
    assert re.findall(r'data-name="layout">(TP.*?)<', text) == ["TP1 PP2", "TP8", "TP4"]


def test_words_do_not_run_together() -> None:
    """What a reader copies: reasons and sources, names and values are apart."""
    words = Page(page()).words
    assert re.search(r"engine/registry/0\.32\.0\.json\)\s+vLLM 0\.32\.0", words)
    assert re.search(r"KV cache\s+12\.0 KiB", words)


def test_tips_have_no_exponents() -> None:
    cost = sketch_cost()
    dense = tuple(row.model_copy(update={"bytes": row.bytes / 7}) for row in cost.operators)
    sizing = sketch_sizing().model_copy(update={"cost": cost.model_copy(update={"operators": dense})})
    parsed = Page(render(AnalysisView.of(sketch_profile(), [sizing])))
    assert "prefill experts.gate_up_proj: 4,200 FLOP/byte" in parsed.words
    assert not re.search(r"\de\+\d", parsed.words + " ".join(parsed.values("title")))


def test_common_hardware_stands_in_one_table() -> None:
    small = sketch_sizing("l4", count=1, layouts=(layout(1, 20.0, 0.0, reason="weights alone are more"),))
    part = ModelSection.of(sketch_profile(), [small, sketch_sizing(), sketch_sizing("h200", count=1)]).sizing
    assert part is not None and part.title == "common hardware"
    assert [cells[0] for cells in part.layouts] == ["h100:2 TP1", "h200:1 TP1"]
    assert [bar.title for bar in part.bars] == ["h100:2 TP1", "h200:1 TP1"]
    assert part.refusals == (("l4:1 TP1", "weights alone are more"),)
    assert part.cost is not None and part.cost.hardware == "h100:2"


def test_dots_lie_on_the_roof() -> None:
    chart = Roofline.of(sketch_cost())
    assert chart is not None
    roof = [tuple(map(float, point.split(","))) for point in chart.roof.split()]
    assert roof[1][1] == roof[2][1] < roof[0][1]
    assert roof[1][0] == pytest.approx(chart.ridge, abs=0.5)
    prefill, decode = ([dot for dot in chart.dots if dot.series == series] for series in (0, 1))
    assert all(dot.x > chart.ridge and dot.y == pytest.approx(roof[1][1], abs=0.6) for dot in prefill)
    slope = (roof[1][1] - roof[0][1]) / (roof[1][0] - roof[0][0])
    assert all(dot.y == pytest.approx(roof[0][1] + slope * (dot.x - roof[0][0]), abs=0.6) for dot in decode)
    inside = [(dot.x, dot.y) for dot in chart.dots]
    assert all(chart.left <= x <= chart.right and chart.top <= y <= chart.base for x, y in inside)


def test_what_is_faster_than_16_bit_is_told() -> None:
    cost = sketch_cost()
    fast = cost.operators[0].model_copy(update={"seconds": cost.operators[0].seconds / 2})
    slow, quick = Roofline.of(cost), Roofline.of(cost.model_copy(update={"operators": (fast, *cost.operators[1:])}))
    assert slow is not None and quick is not None
    assert "8 or 4 bit" in quick.description and "8 or 4 bit" not in slow.description


def test_dots_areas_are_shares_of_their_phase() -> None:
    chart = Roofline.of(sketch_cost())
    assert chart is not None
    big, small = chart.dots[0], next(dot for dot in chart.dots if "qkv_proj" in dot.tip and dot.series == 0)
    assert (big.radius / small.radius) ** 2 == pytest.approx(2.1e12 / 4e11, rel=0.02)


@pytest.mark.parametrize(
    "changes", [{"flops": 0.0}, {"bytes": 0.0}, {"seconds": 0.0}, {"flops": 1e-300, "bytes": 1e300}]
)
def test_odd_operators_break_no_axis(changes: dict[str, float]) -> None:
    cost = sketch_cost()
    odd = OperatorCost.model_validate({**cost.operators[0].model_dump(), **changes})
    chart = Roofline.of(cost.model_copy(update={"operators": (odd, *cost.operators[1:])}))
    assert chart is not None
    assert all(math.isfinite(value) for dot in chart.dots for value in (dot.x, dot.y, dot.radius))
    assert len(chart.x_ticks) <= 14
    assert Roofline.of(cost.model_copy(update={"operators": ()})) is None


def test_cost_tables_put_the_longest_first_and_sum_up() -> None:
    prefill, decode = cost_tables(sketch_cost())
    assert [row.name for row in prefill.rows][:2] == ["experts.gate_up_proj", "qkv_proj"]
    assert sum(row.percent for row in decode.rows) == pytest.approx(100, abs=0.05)
    assert prefill.title == "Prefill of 8,192 tokens: at least 2.93 ms"
    assert (prefill.rows[0].flops, prefill.rows[0].intensity) == ("2.1 TFLOP", "600")
    many = sketch_cost().model_copy(update={"operators": sketch_cost().operators * 5})
    assert cost_tables(many)[0].rows[-1].name == "8 more"
    assert sum(row.percent for row in cost_tables(many)[0].rows) == pytest.approx(100, abs=0.1)


def test_no_name_becomes_markup() -> None:
    """Every text of profile and sizing that is free is hostile at once."""
    finding = Finding(code="a.b", level=Level.WARNING, message=EVIL, hint=EVIL, source=EVIL)
    profile = sketch_profile(EVIL, architecture=EVIL, findings=(finding,))
    encoder = profile.structure.encoders[0].model_copy(update={"model_type": EVIL, "why": EVIL})
    tokenizer = profile.tokenizer.model_copy(update={"chat_template_source": EVIL})
    structure = profile.structure.model_copy(update={"encoders": (encoder,)})
    profile = profile.model_copy(update={"structure": structure, "tokenizer": tokenizer, "license": EVIL})
    sizing = sketch_sizing(layouts=(layout(1, 20, 40), layout(3, 1, 0, reason=EVIL)))
    cost = sketch_cost()
    operators = tuple(row.model_copy(update={"name": EVIL}) for row in cost.operators)
    fact = sizing.device_facts[0].model_copy(update={"text": EVIL, "source": EVIL})
    changes = {
        "cost": cost.model_copy(update={"operators": operators, "source": EVIL}),
        "device_facts": (fact,),
        "smallest": EVIL,
        "hardware": sizing.hardware.model_copy(update={"name": EVIL}),
    }
    parsed = Page(render(AnalysisView.of(profile, [sizing.model_copy(update=changes)])))
    assert parsed.open == []
    assert not {"script", "img"} & set(parsed.tags)
    assert not [name for _, name, _ in parsed.attributes if name.startswith("on")]
    assert parsed.words.count("<script>alert(1)</script>") >= 12
    assert "49" not in re.findall(r"\{\{.*?\}\}", parsed.words) and "{{ 7*7 }}" in parsed.words


def test_an_unchanged_page_is_left_alone(tmp_path: Path) -> None:
    path = write_analysis_page(tmp_path, sketch_profile())
    before = path.stat().st_mtime_ns
    assert write_analysis_page(tmp_path, sketch_profile()).stat().st_mtime_ns == before
    write_analysis_page(tmp_path, sketch_profile(), [sketch_sizing()])
    assert "Memory on h100:2" in path.read_text()


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((0,), "0"), ((0, 1, 2), "0–2"), ((3, 7, 11, 15), "3, 7, …, 15"), ((0, 1, 3, 4, 9), "0–1, 3–4, 9")],
)
def test_layer_numbers(numbers: tuple[int, ...], text: str) -> None:
    assert layer_numbers(numbers) == text


def test_words_of_caches() -> None:
    latent = CacheEntry(kind="mla", kv_heads=1, key_dim=576, value_dim=0)
    index = CacheEntry(kind="indexer", kv_heads=1, key_dim=132, value_dim=0, dtype="uint8")
    sliding = CacheEntry(kind="sliding_attention", kv_heads=8, key_dim=128, value_dim=128, window=1024)
    assert cache_bytes_per_token((latent, index)) == 576 * 2 + 132
    assert cache_bytes_per_token((sliding,)) == 8 * 256 * 2
    packed = sliding.model_copy(update={"tokens_per_entry": 4})
    assert cache_bytes_per_token((packed,)) == 8 * 256 * 2 / 4
    group = LayerGroup(
        layers=(0,), mixer="sliding_attention", feed_forward="dense", caches=(sliding,), weights=WeightShares()
    )
    assert group_words(group) == "sliding attention (1,024 tokens) + dense MLP"


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2 s"), (0.00123, "1.23 ms"), (4.5e-6, "4.5 µs"), (2e-9, "2 ns"), (0.9999, "1,000 ms")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_powers_of_ten() -> None:
    assert [power_of_ten(power) for power in (-1, 0, 2, 3, 5, 12)] == ["0.1", "1", "100", "1K", "100K", "1T"]
