"""The one Jinja environment. A template sees one variable, `view`, and a misspelt name is an error."""

from functools import cache
from pathlib import Path

import jinja2

from autoadapter.rendering.literals import FILTERS
from autoadapter.rendering.view import View

_PACKAGE = Path(__file__).parents[1]


def templates_dir() -> Path:
    """Where the templates are: inside the wheel, or beside the package in a checkout."""
    packed = _PACKAGE / "_templates"
    return packed if packed.is_dir() else _PACKAGE.parent / "templates"


@cache
def environment() -> jinja2.Environment:
    """Strict, block-trimming, no autoescape: the output is code."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_dir()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # the output is YAML, Python, shell
    )
    made.filters.update(FILTERS)
    return made


def render(view: View) -> str:
    """The text of the view's template."""
    return environment().get_template(view.template).render(view=view)
