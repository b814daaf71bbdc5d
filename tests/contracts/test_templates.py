"""Every template is claimed by exactly one view, sees one variable, and stays small."""

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jinja2.meta
import pytest

import autoadapter
from autoadapter.rendering.env import environment, templates_dir

MOST_LINES = 150
TEMPLATES = sorted(path.relative_to(templates_dir()) for path in templates_dir().rglob("*.j2"))


def view_classes() -> Iterator[type]:
    """Every class in the package that names a template."""
    seen: set[type] = set()
    for module in pkgutil.walk_packages(autoadapter.__path__, "autoadapter."):
        if ".workers" in module.name or module.name.endswith((".launcher", "__main__")):
            continue
        for member in vars(importlib.import_module(module.name)).values():
            if isinstance(member, type) and isinstance(vars(member).get("template"), str) and member not in seen:
                seen.add(member)
                yield member


def test_each_template_has_one_view() -> None:
    claimed = Counter(str(view.template) for view in view_classes())  # type: ignore[attr-defined]
    on_disk = [str(path) for path in TEMPLATES if path.parts[0] != "_macros"]
    assert on_disk
    assert claimed == Counter(on_disk)


@pytest.mark.parametrize("path", TEMPLATES, ids=str)
def test_template_sees_only_view(path: Path) -> None:
    source = (templates_dir() / path).read_text()
    assert len(source.splitlines()) <= MOST_LINES
    if path.parts[0] != "_macros":
        assert jinja2.meta.find_undeclared_variables(environment().parse(source)) <= {"view"}
