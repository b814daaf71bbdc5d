"""What a template's expression must be, whatever the messages are. Most answers are UNKNOWN, and that is safe."""

from collections.abc import Mapping
from typing import Final

from jinja2 import nodes

ANY = "\0"
"""Stands for text that cannot be told."""
MOST_ALTERNATIVES = 16


class Unknown:
    """It depends on the conversation."""


class Undefined:
    """A variable that nobody passed."""


UNKNOWN: Final = Unknown()
UNDEFINED: Final = Undefined()
Value = str | int | float | bool | None | Unknown | Undefined
Scope = Mapping[str, Value]


def value_of(node: nodes.Node, scope: Scope) -> Value:
    """The value of an expression."""
    if isinstance(node, nodes.Const):
        return node.value if isinstance(node.value, str | int | float | bool | None) else UNKNOWN
    if isinstance(node, nodes.Name):
        return scope.get(node.name, UNKNOWN)
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        return scope.get(f"{node.node.name}.{node.attr}", UNKNOWN)
    if isinstance(node, nodes.And | nodes.Or | nodes.Not | nodes.Compare | nodes.Test):
        return _condition(node, scope)
    if isinstance(node, nodes.Filter):
        return _filtered(node, scope)
    return _composed(node, scope)


def _composed(node: nodes.Node, scope: Scope) -> Value:
    if isinstance(node, nodes.CondExpr):
        holds = truth(value_of(node.test, scope))
        chosen = node.expr1 if holds else node.expr2
        return UNKNOWN if holds is None else UNDEFINED if chosen is None else value_of(chosen, scope)
    if isinstance(node, nodes.Add | nodes.Concat):
        found = alternatives(node, scope)
        return found.pop() if len(found) == 1 and ANY not in "".join(found) else UNKNOWN
    return UNKNOWN


def truth(value: Value) -> bool | None:
    """Whether a condition of this value holds; None when it depends."""
    if isinstance(value, Unknown):
        return None
    return False if isinstance(value, Undefined) else bool(value)


def alternatives(node: nodes.Node | None, scope: Scope) -> set[str]:
    """Texts that an expression can write, with `ANY` in the places that depend on the conversation."""
    if node is None:
        return {""}
    if isinstance(node, nodes.TemplateData):
        return {node.data}
    if isinstance(node, nodes.CondExpr):
        return _chosen(node, scope)
    if isinstance(node, nodes.Add) and not _adds_text(node, scope):
        return {ANY}
    parts = [node.left, node.right] if isinstance(node, nodes.Add) else []
    parts = node.nodes if isinstance(node, nodes.Concat) else parts
    if not parts:
        value = value_of(node, scope)
        return {ANY} if isinstance(value, Unknown) else {"" if isinstance(value, Undefined) else str(value)}
    found = {""}
    for part in parts:
        found = {before + after for before in found for after in alternatives(part, scope)}
        if len(found) > MOST_ALTERNATIVES:
            return {ANY}
    return found


def _adds_text(node: nodes.Add, scope: Scope) -> bool:
    """Whether at least one side is text and none is a number."""
    sides = [side if isinstance(side, nodes.Add) else value_of(side, scope) for side in (node.left, node.right)]
    return all(isinstance(side, str | Unknown | nodes.Add) for side in sides)


def _chosen(node: nodes.CondExpr, scope: Scope) -> set[str]:
    holds = truth(value_of(node.test, scope))
    branches = [branch for branch, taken in ((node.expr1, True), (node.expr2, False)) if holds in (taken, None)]
    return set().union(*(alternatives(branch, scope) for branch in branches))


def _condition(node: nodes.Node, scope: Scope) -> Value:
    if isinstance(node, nodes.Not):
        holds = truth(value_of(node.node, scope))
        return UNKNOWN if holds is None else not holds
    if isinstance(node, nodes.And | nodes.Or):
        left, right = truth(value_of(node.left, scope)), truth(value_of(node.right, scope))
        decisive = isinstance(node, nodes.Or)
        if decisive in (left, right):
            return decisive
        return UNKNOWN if None in (left, right) else not decisive
    if isinstance(node, nodes.Test):
        return _tested(node.name, value_of(node.node, scope))
    return _compared(node, scope) if isinstance(node, nodes.Compare) else UNKNOWN


def _tested(name: str, value: Value) -> Value:
    if isinstance(value, Unknown):
        return UNKNOWN
    answers = {
        "defined": not isinstance(value, Undefined),
        "undefined": isinstance(value, Undefined),
        "none": value is None,
        "true": value is True,
        "false": value is False,
        "boolean": isinstance(value, bool),
        "string": isinstance(value, str),
    }
    return answers.get(name, UNKNOWN)


def _compared(node: nodes.Compare, scope: Scope) -> Value:
    """Equality alone; anything else depends."""
    if len(node.ops) != 1 or node.ops[0].op not in ("eq", "ne"):
        return UNKNOWN
    left, right = value_of(node.expr, scope), value_of(node.ops[0].expr, scope)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return UNKNOWN
    return (left == right) == (node.ops[0].op == "eq")


def _filtered(node: nodes.Filter, scope: Scope) -> Value:
    if node.node is None:
        return UNKNOWN
    value = value_of(node.node, scope)
    if node.name in ("default", "d") and isinstance(value, Undefined):
        return value_of(node.args[0], scope) if node.args else ""
    if node.name in ("default", "d"):
        return value
    if isinstance(value, str) and node.name in ("lower", "upper", "trim", "string"):
        changed = {"lower": value.lower(), "upper": value.upper(), "trim": value.strip(), "string": value}
        return changed[node.name]
    return UNKNOWN
