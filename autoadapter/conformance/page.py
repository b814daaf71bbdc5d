"""`support.md`: what is proven and what is not, for people."""

from collections.abc import Mapping, Sequence

from autoadapter.conformance.record import Row, Status
from autoadapter.verify.proof import GATE

COLUMNS: dict[Status, str] = {
    Status.PROVEN: "| architecture | route | largest difference | remark |\n| --- | --- | --- | --- |",
    Status.WRONG: "| architecture | route | largest difference | what is seen |\n| --- | --- | --- | --- |",
    Status.REFUSED: "| architecture | route | stopped at | why |\n| --- | --- | --- | --- |",
    Status.NOT_RUN: "| architecture | route | stopped at | why |\n| --- | --- | --- | --- |",
}
MEANING: dict[Status, str] = {
    Status.PROVEN: "The route computes what transformers computes.",
    Status.WRONG: "The route starts and answers, and its log-probabilities are not those of transformers. A clone "
    "turns on what its config class knows; a checkpoint that leaves the setting off may be served right.",
    Status.REFUSED: "No answer: probing, rendering or the engine refused, loudly.",
    Status.NOT_RUN: "Not provable on this machine, or the route does not exist there. Nothing is claimed.",
}
RULE = (
    "One row is one causal language model class of transformers, cloned tiny with random weights under which every "
    f"path matters. Proven means: in float32 no log-probability of the whole vocabulary differs by more than {GATE:g}, "
    "at any position of prefill and of decoding, alone, in batches of unequal lengths, "
    "with the prompt computed in chunks and across window edges. "
    "It says nothing about quantized weights, tensor parallelism or speed."
)


def support_page(rows: Sequence[Row], route: str, versions: Mapping[str, str]) -> str:
    """The page of a sweep, in Markdown.

    Args:
        rows: in any order.
        route: what was asked for.
        versions: of the engine and of what it imports.
    """
    told = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    totals = [f"| {status} | {sum(row.status is status for row in rows)} |" for status in Status]
    head = [
        "# Proven architectures",
        "",
        f"Route: {route}. Found on {told}.",
        "",
        RULE,
        "",
        "| status | architectures |",
        "| --- | --- |",
        *totals,
        f"| all | {len(rows)} |",
        "",
    ]
    sections = [line for status in Status for line in _section(status, rows)]
    return "\n".join([*head, *sections]).rstrip() + "\n"


def _section(status: Status, rows: Sequence[Row]) -> list[str]:
    listed = sorted((row for row in rows if row.status is status), key=lambda row: row.architecture)
    if not listed:
        return []
    title = status.replace("_", " ").capitalize()
    return [f"## {title}", "", MEANING[status], "", COLUMNS[status], *map(_line, listed), ""]


def _line(row: Row) -> str:
    if row.status in (Status.PROVEN, Status.WRONG):
        third = "not a number" if row.max_abs_logprob_diff is None else f"{row.max_abs_logprob_diff:.1e}"
        fourth = row.reason or ("carries over a block as it is" if row.opaque else "")
    else:
        third, fourth = row.stage, row.reason
    return f"| `{row.architecture}` | {row.route} | {third} | {_cell(fourth)} |"


def _cell(text: str) -> str:
    """Text that stays in its cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
