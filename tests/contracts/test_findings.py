"""Every finding code that the source can raise is explained, with its levels, and nothing else is."""

import ast
import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoadapter.engine.registry import known_issues
from autoadapter.errors import UserError
from autoadapter.findings import Explanation, explain, explanations

PACKAGE = Path(__file__).parents[2] / "autoadapter"
CODE = re.compile(r"[a-z0-9-]+\.[a-z0-9*-]+")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A module, with the function around every call."""

    path: Path
    calls: tuple[tuple[ast.Call, Function | None], ...]
    classes: tuple[ast.ClassDef, ...]

    @classmethod
    def read(cls, path: Path) -> "Source":
        found: list[tuple[ast.Call, Function | None]] = []

        def visit(node: ast.AST, around: Function | None) -> None:
            if isinstance(node, ast.Call):
                found.append((node, around))
            inside = node if isinstance(node, Function) else around
            for child in ast.iter_child_nodes(node):
                visit(child, inside)

        tree = ast.parse(path.read_text())
        visit(tree, None)
        return cls(path, tuple(found), tuple(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)))


@dataclass(frozen=True)
class Raised:
    """A code and the levels it is raised with, as far as the source says them outright."""

    code: str
    levels: frozenset[str]
    where: str


def name_of(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def argument(call: ast.Call, name: str, position: int | None) -> ast.expr | None:
    given = next((word.value for word in call.keywords if word.arg == name), None)
    if given is None and position is not None and position < len(call.args):
        return call.args[position]
    return given


def values(source: Source, expression: ast.expr | None, around: Function | None) -> list[str]:
    """Texts that an expression may have: constants, both sides of a condition, a parameter's arguments, a local."""
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        return [expression.value]
    if isinstance(expression, ast.IfExp):
        return [*values(source, expression.body, around), *values(source, expression.orelse, around)]
    if isinstance(expression, ast.JoinedStr):
        return joined(source, expression, around)
    if isinstance(expression, ast.Attribute) and expression.attr.isupper():
        return [expression.attr.lower()]
    if isinstance(expression, ast.Attribute):
        return of_field(source, expression.attr)
    if isinstance(expression, ast.Name) and around is not None:
        return of_name(source, expression.id, around)
    return []


def joined(source: Source, text: ast.JoinedStr, around: Function | None) -> list[str]:
    """Every text of an f-string; a part that cannot be told is `*`."""
    made = [""]
    for part in text.values:
        expression = part.value if isinstance(part, ast.FormattedValue) else part
        options = values(source, expression, around) or ["*"]
        made = [left + right for left in made for right in options]
    return made


def of_field(source: Source, field: str) -> list[str]:
    """What the module's own classes are made with for a field."""
    found = []
    for kind in source.classes:
        fields = [n.target.id for n in kind.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
        if field in fields:
            made = [(call, around) for call, around in source.calls if name_of(call) == kind.name]
            arguments = [(argument(call, field, fields.index(field)), around) for call, around in made]
            found += [value for expression, around in arguments for value in values(source, expression, around)]
    return found


def of_name(source: Source, name: str, around: Function) -> list[str]:
    if name in parameters(around):
        given = [value for call in calls_of(source, around) for value in passed(source, call, name, around)]
        return list(dict.fromkeys(given))
    assigned = [
        node.value
        for node in ast.walk(around)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    unpacked = [
        value
        for node in ast.walk(around)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
        for target in node.targets
        if isinstance(target, ast.Tuple)
        for part, value in zip(target.elts, node.value.elts, strict=True)
        if isinstance(part, ast.Name) and part.id == name
    ]
    return [value for expression in (*assigned, *unpacked) for value in values(source, expression, around)]


def parameters(function: Function) -> list[str]:
    return [parameter.arg for parameter in (*function.args.args, *function.args.kwonlyargs)]


def calls_of(source: Source, function: Function) -> list[tuple[ast.Call, Function | None]]:
    return [(call, outer) for call, outer in source.calls if name_of(call) == function.name]


def passed(source: Source, call: tuple[ast.Call, Function | None], name: str, function: Function) -> list[str]:
    """What one call gives for a parameter, its default where it gives nothing."""
    names = parameters(function)
    given = argument(call[0], name, names.index(name) - (names[0] == "self"))
    return values(source, given, call[1]) if given is not None else defaults(source, name, function)


def defaults(source: Source, name: str, around: Function) -> list[str]:
    plain = dict(zip([a.arg for a in around.args.args][::-1], around.args.defaults[::-1], strict=False))
    named = dict(zip([a.arg for a in around.args.kwonlyargs], around.args.kw_defaults, strict=True))
    return values(source, plain.get(name) or named.get(name), None)


def helper_parameter(expression: ast.expr | None, around: Function | None) -> str | None:
    """The parameter that an expression is, or that its f-string ends in."""
    inner = expression
    if isinstance(expression, ast.JoinedStr) and isinstance(expression.values[-1], ast.FormattedValue):
        inner = expression.values[-1].value
    known = around is not None and isinstance(inner, ast.Name) and inner.id in parameters(around)
    return inner.id if known and isinstance(inner, ast.Name) else None


def pairs(source: Source, call: ast.Call, around: Function | None) -> Iterator[tuple[str, frozenset[str]]]:
    """(code, levels) of one `Finding(...)`. A helper that takes both is looked at call by call, so that they pair."""
    code, level = argument(call, "code", None), argument(call, "level", None)
    topic, grade = helper_parameter(code, around), helper_parameter(level, around)
    if around is None or topic is None or grade is None:
        levels = frozenset(values(source, level, around))
        yield from ((text, levels) for text in values(source, code, around))
        return
    fixed = code.values[:-1] if isinstance(code, ast.JoinedStr) else []
    prefix = "".join(str(part.value) for part in fixed if isinstance(part, ast.Constant))
    for one in calls_of(source, around):
        levels = frozenset(passed(source, one, grade, around))
        yield from ((prefix + text, levels) for text in passed(source, one, topic, around))


def raised() -> Iterator[Raised]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if "workers" in path.parts or "Finding" not in path.read_text():
            continue
        source = Source.read(path)
        for call, around in source.calls:
            if name_of(call) == "Finding":
                where = f"{path.relative_to(PACKAGE)}:{call.lineno}"
                codes = list(pairs(source, call, around))
                if not codes and "known_issues" in path.read_text():
                    yield from (Raised(row.code, frozenset({row.level.value}), where) for row in known_issues())
                    continue
                assert codes, f"{where}: write the code as a constant, or pass one, so that it can be found"
                yield from (Raised(code, levels, where) for code, levels in codes)


RAISED = tuple(raised())


def row_for(code: str) -> Explanation | None:
    return next((row for row in explanations() if row.code == code), None)


def test_the_walk_sees_every_way_to_name_a_code() -> None:
    """A constant, a helper's parameter, a prefix of its own, a name that is only known when it runs."""
    codes = {one.code for one in RAISED}
    assert {"tokenizer.none", "weights.layers", "plan.tight", "verify.*-not-run"} <= codes
    assert all(CODE.fullmatch(code) for code in codes), [code for code in codes if not CODE.fullmatch(code)]


def test_every_code_is_explained() -> None:
    missing = sorted({f"{one.code}  {one.where}" for one in RAISED if row_for(one.code) is None})
    assert not missing, "add a row to autoadapter/findings/data/"


def test_every_explanation_has_a_code() -> None:
    assert not sorted({row.code for row in explanations()} - {one.code for one in RAISED})


def test_levels_are_those_of_the_source() -> None:
    """Where the source names a level in a way that cannot be followed, the row is believed."""
    said: dict[str, set[str]] = {}
    for one in RAISED:
        said.setdefault(one.code, set()).update(one.levels)
    untold = {one.code for one in RAISED if not one.levels}
    rows = {row.code: set(map(str, row.levels)) for row in explanations()}
    assert len(untold) <= 3, untold
    assert {code: rows[code] for code in said if code not in untold} == {
        code: levels for code, levels in said.items() if code not in untold
    }


def test_rows_are_unique_and_say_something() -> None:
    codes = [row.code for row in explanations()]
    assert len(codes) == len(set(codes))
    for row in explanations():
        assert row.levels, row.code
        assert 3 <= len(row.title) <= 60, row.code
        assert not row.title.endswith("."), row.code
        assert len(row.meaning) >= 20 and row.remedy, row.code


def test_a_pattern_explains_the_codes_that_it_speaks_of() -> None:
    assert explain("verify.parity-not-run").code == "verify.*-not-run"
    assert fnmatch.fnmatchcase("verify.parity-not-run", explain("VERIFY.parity-not-run ").code)


@pytest.mark.parametrize(("wrong", "near"), [("tokenizer.eos-conflct", "tokenizer.eos-conflict"), ("plan", "plan.")])
def test_an_unknown_code_names_its_neighbours(wrong: str, near: str) -> None:
    with pytest.raises(UserError, match="Did you mean") as caught:
        explain(wrong)
    assert near in str(caught.value)
    assert near in str(caught.value.hint)
