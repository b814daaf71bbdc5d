"""One sink: stdout is data, stderr is talk."""

import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as LiveProgress
from rich.table import Table
from rich.text import Text

from autoadapter.errors import AutoadapterError
from autoadapter.progress import Progress

if TYPE_CHECKING:
    from autoadapter.artifacts import Finding, Level

PIPE_WIDTH, HINT_INDENT, GRID_GAP = 160, 9, 2
WIDEST_LABEL, NARROW_INDENT = 20, 4
"""Characters of a label that text may hang from, and the indent below a longer one."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
LEVEL_STYLE = {"blocker": "bold red", "warning": "yellow", "info": "dim"}
STATUS_STYLE = {
    "passed": "green",
    "failed": "bold red",
    "not_run": "yellow",
    "proven": "green",
    "wrong": "bold red",
    "refused": "yellow",
    "ok": "green",
    "note": "dim",
    "warning": "yellow",
    "problem": "bold red",
}


class Out:
    """What a command says, in the form that was asked for."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._folds = _has_screen()
        self._data = Console(highlight=False, width=None if self._folds else PIPE_WIDTH)
        self._talk = Console(stderr=True, highlight=False)

    def document(self, document: Any) -> None:
        """The one JSON document of a `--json` call."""
        from pydantic_core import to_json  # loaded by whoever has a result; `--help` has none

        text = to_json(document, indent=2).decode()  # json.dumps takes ten times as long where it indents
        sys.stdout.write(_NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n")

    def heading(self, text: str) -> None:
        """A line in bold."""
        self._data.print(f"[bold]{safe(text)}[/bold]")

    def line(self, text: str, style: str = "") -> None:
        """A plain line of the result."""
        self._data.print(safe(text), style=style, soft_wrap=True)

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """A two-column list of name and value."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in rows:
            table.add_row(safe(name), safe(value))
        self._data.print(table)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, status_column: int | None = None) -> None:
        """A table; one column may be coloured by status."""
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
        for name in columns:
            table.add_column(name, overflow="fold")
        for row in rows:
            cells = [safe(cell) for cell in row]
            if status_column is not None:
                style = STATUS_STYLE.get(row[status_column], "")
                cells[status_column] = f"[{style}]{cells[status_column]}[/]" if style else cells[status_column]
            table.add_row(*cells)
        self._data.print(table)

    def explained(self, rows: "Sequence[tuple[str, str, str]]") -> None:
        """A choice a line, and below it in grey why it was made and where that comes from."""
        for choice, why, source in rows:
            self._data.print(f"  {safe(choice)}", soft_wrap=True)
            self._data.print(f"      {safe(why)}  ({safe(source)})", style="dim", soft_wrap=True)

    def findings(self, findings: "Sequence[Finding]", *, least: "Level | None" = None) -> None:
        """What a stage noticed, with the code that `analyze --explain` takes; `least` hides what matters less."""
        order = list(LEVEL_STYLE)
        shown = [finding for finding in findings if least is None or order.index(finding.level) <= order.index(least)]
        for finding in shown:
            style = LEVEL_STYLE[finding.level]
            self.hanging((f"{finding.level}  ", style), [(finding.message, ""), (f"  {finding.code}", "dim")])
            if finding.hint:
                self.hanging((" " * HINT_INDENT, ""), [(finding.hint, "dim")])

    def hanging(self, label: tuple[str, str], spans: Sequence[tuple[str, str]]) -> None:
        """A label and styled texts beside it: folded at the screen's width, one line where there is no screen."""
        head, body = (Text.assemble(*((_inert(text), style) for text, style in part)) for part in ([label], spans))
        if not self._folds:
            self._data.print(head + body, soft_wrap=True)
            return
        if head.cell_len > WIDEST_LABEL:
            head, body, indent = Text(), head + body, NARROW_INDENT
        else:
            indent = head.cell_len
        lines = body.wrap(self._data, max(self.width - indent, WIDEST_LABEL), overflow="fold") or [Text()]
        for at, line in enumerate(lines):
            line.rstrip()
            start = head if at == 0 else Text(" " * indent)
            self._data.print(start + line, soft_wrap=True)

    @property
    def width(self) -> int:
        """Columns of the result."""
        return self._data.width

    @property
    def draws_blocks(self) -> bool:
        """Whether the terminal's encoding has block characters."""
        return self._data.encoding.lower().startswith("utf")

    def spans(self, spans: Sequence[tuple[str, str]]) -> None:
        """One line of differently styled texts."""
        self._data.print(Text.assemble(*((_inert(text), style) for text, style in spans)))

    def numbers(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, dim: Collection[int] = ()) -> None:
        """A table of numbers: the first column to the left, the others to the right; rows in `dim` recede."""
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
        for at, name in enumerate(columns):
            table.add_column(name, justify="right" if at else "left", overflow="fold")
        for at, row in enumerate(rows):
            table.add_row(*map(safe, row), style="dim" if at in dim else "")
        self._data.print(table)

    def grid(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], gap: int = GRID_GAP
    ) -> None:
        """A table whose columns have given widths; words that are longer are folded."""
        table = Table(box=None, header_style="dim", padding=(0, gap, 0, 0), pad_edge=False)
        for name, width in zip(columns, widths, strict=True):
            table.add_column(name, overflow="fold", width=width)
        for row in rows:
            table.add_row(*map(safe, row))
        self._data.print(table)

    def talk(self, text: str) -> None:
        """Something for people, on stderr."""
        self._talk.print(safe(text), style="dim", soft_wrap=True)

    def next_step(self, command: str) -> None:
        """What to type next."""
        self._talk.print(f"[dim]next:[/] {safe(command)}", soft_wrap=True)

    def error(self, error: AutoadapterError) -> None:
        """One sentence and the next command; with `--json` the same as a document."""
        if self.as_json:
            self.document({"error": error_facts(error)})
        self._talk.print(f"[bold red]error:[/] {safe(str(error))}", soft_wrap=True)
        if error.hint:
            self._talk.print(f"[dim]try:[/] {safe(error.hint)}", soft_wrap=True)

    @contextmanager
    def progress(self, title: str = "") -> Iterator[Progress]:
        """A live line on a terminal, plain lines elsewhere; always on stderr."""
        if not self._talk.is_terminal or os.environ.get("TERM") == "dumb":
            yield _plain_lines(self._talk, title)
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TaskProgressColumn())
        with LiveProgress(*columns, TimeElapsedColumn(), console=self._talk, transient=True) as live:
            task = live.add_task(safe(title), total=None)

            def show(text: str, fraction: float | None = None) -> None:
                words = safe(f"{title}: {text}" if title not in ("", "run") else text)
                live.update(task, description=words, total=None if fraction is None else 1.0, completed=fraction or 0.0)

            yield show


def error_facts(error: AutoadapterError) -> dict[str, Any]:
    """An error as `--json` tells it."""
    return {
        "type": type(error).__name__,
        "message": str(error),
        "hint": error.hint,
        "exit_code": error.exit_code,
    }


def safe(text: str) -> str:
    """Text from a model or the system as rich shows it literally: no markup, no control or escape sequences."""
    return escape(_inert(text))


def _inert(text: str) -> str:
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _has_screen() -> bool:
    """Whether lines have a width: the terminal's or that of `COLUMNS`; else a pipe gets whole lines."""
    return sys.stdout.isatty() or bool(os.environ.get("COLUMNS"))


def _plain_lines(console: Console, title: str) -> Progress:
    """For logs: a line whenever the words change, numbers not counted."""
    last = ""

    def show(text: str, fraction: float | None = None) -> None:
        nonlocal last
        words = "".join(letter for letter in text if not letter.isdigit())
        if words != last:
            last = words
            share = f" {fraction:.0%}" if fraction is not None else ""
            console.print(safe(f"{title}{share}: {text}" if title else text), style="dim", soft_wrap=True)

    return show
