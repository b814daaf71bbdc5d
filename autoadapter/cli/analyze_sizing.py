"""What a model needs on hardware: a table of layouts, one bar a GPU, and why other layouts are refused."""

from collections.abc import Sequence

from autoadapter.artifacts import Sizing
from autoadapter.cli.output import Out
from autoadapter.cli.text_bar import draw_bars
from autoadapter.rendering.fit import holds_a_request
from autoadapter.rendering.layouts import (
    COLUMNS,
    REPLICAS,
    foremost_first,
    layout_name,
    refusals,
    row,
    serving_layouts,
    smallest_words,
    terms_words,
)
from autoadapter.rendering.words import gib

MOST_ROWS, MOST_REFUSED = 6, 2


def show_sizing(out: Out, sizings: Sequence[Sizing], *, all_layouts: bool) -> None:
    """The hardware asked for with all its layouts; of others the best one each."""
    if len(sizings) == 1:
        _one(out, sizings[0], all_layouts)
    else:
        _several(out, sizings, all_layouts)


def _one(out: Out, sizing: Sizing, all_layouts: bool) -> None:
    _heading(out, [sizing], sizing.hardware.text)
    serving = foremost_first(serving_layouts(sizing.layouts) or holds_a_request(sizing), sizing.hardware.count)
    shown = serving if all_layouts else serving[:MOST_ROWS]
    if shown:
        out.numbers(COLUMNS, [row(layout, layout_name(layout)) for layout in shown])
        if any(layout.parallelism.data_parallel_size > 1 for layout in shown):
            out.line(f"DP: {REPLICAS}", "dim")
        _rest(out, len(serving) - len(shown))
        draw_bars(out, [(layout_name(shown[0]), sizing, shown[0])])
    _refused(out, sizing, all_layouts)
    _devices(out, sizing, all_layouts)


def _several(out: Out, sizings: Sequence[Sizing], all_layouts: bool) -> None:
    names = ", ".join(sizing.hardware.text for sizing in sizings)
    _heading(out, sizings, names if all_layouts else "common hardware")
    best = [(sizing, next((row for row in sizing.layouts if row.legal and row.fits), None)) for sizing in sizings]
    rows = [
        row(layout, f"{sizing.hardware.text} {layout_name(layout)}")
        if layout
        else (f"{sizing.hardware.text}", *_why_not(sizing))
        for sizing, layout in best
    ]
    out.numbers(("hardware", *COLUMNS[1:]), rows, dim=[at for at, (_, layout) in enumerate(best) if layout is None])
    draw_bars(out, [(sizing.hardware.text, sizing, layout) for sizing, layout in best if layout is not None])
    if all_layouts:
        for sizing in sizings:
            _refused(out, sizing, all_layouts)


def _heading(out: Out, sizings: Sequence[Sizing], where: str) -> None:
    out.spans([(f"needs on {where}", "bold"), (f"  GiB a device; {terms_words(sizings)}", "dim")])
    out.hanging(("", ""), [(smallest_words(sizings[0]), "dim")])


def _why_not(sizing: Sizing) -> tuple[str, ...]:
    layout = next((layout for layout in sizing.layouts if layout.legal), None)
    size = gib(layout.weight_bytes) if layout else "–"
    return (size, "does not fit" if layout else "no layout", "–", "–", "–", "–")


def _rest(out: Out, hidden: int) -> None:
    if hidden > 0:
        out.line(f"{hidden} more layout{'' if hidden == 1 else 's'}: --all-layouts", "dim")


def _refused(out: Out, sizing: Sizing, all_layouts: bool) -> None:
    reasons = list(refusals(sizing.layouts))
    shown = reasons if all_layouts else reasons[:MOST_REFUSED]
    for names, reason in shown:
        out.hanging((f"not {names}: ", "dim"), [(reason, "dim")])
    if len(reasons) > len(shown):
        hidden = len(reasons) - len(shown)
        out.line(f"{hidden} more reason{'' if hidden == 1 else 's'}: --all-layouts", "dim")


def _devices(out: Out, sizing: Sizing, all_layouts: bool) -> None:
    bad = [fact for fact in sizing.device_facts if not fact.good]
    for fact in sizing.device_facts if all_layouts else bad[:2]:
        mark = "on this device" if fact.good else "mind"
        out.hanging((f"{mark}: ", "dim" if fact.good else "yellow"), [(f"{fact.text}  ({fact.source})", "")])
