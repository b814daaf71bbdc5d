"""How a chat template's output can end, found by walking its syntax tree with most values unknown.

Every branch that may be taken is taken, every loop is walked once with what it sets forgotten, and the ends of all
paths are kept. The walk is linear in the size of the template: paths share one scope, in which names that differ
between branches become unknown.
"""

from collections.abc import Mapping, Sequence

from jinja2 import nodes

from autoadapter.analyze.tokenizer.expression import ANY, UNKNOWN, Value, alternatives, truth, value_of
from autoadapter.analyze.tokenizer.template_syntax import assigned

TAIL = 96
"""Characters of each end that are kept."""
SHORT_TAIL = 24
"""The same where there are too many."""
MOST_ENDS = 256


def endings(tree: nodes.Template, scope: Mapping[str, Value]) -> frozenset[str]:
    """The last characters of everything that the template may write.

    Args:
        tree: the template.
        scope: values of the variables that are known; all others depend on the conversation.

    Raises:
        RecursionError: it is nested deeper than Python can follow.
    """
    walk = _Walk(dict(scope), {""})
    walk.run(tree.body)
    return frozenset(walk.ends)


class _Walk:
    """One pass over statements, with the scope and the ends so far."""

    def __init__(self, scope: dict[str, Value], ends: set[str]) -> None:
        self.scope = scope
        self.ends = ends

    def run(self, body: Sequence[nodes.Node]) -> None:
        """Follow statements in order."""
        for node in body:
            if isinstance(node, nodes.Output):
                for part in node.nodes:
                    self._write(alternatives(part, self.scope))
            elif isinstance(node, nodes.If):
                self._branch(node)
            elif isinstance(node, nodes.For):
                self._loop(node)
            elif isinstance(node, nodes.Assign):
                self._assign(node)
            elif isinstance(node, nodes.AssignBlock):
                self._forget(node)
            elif isinstance(node, nodes.With | nodes.Scope):
                self.run(node.body)
            elif isinstance(node, nodes.FilterBlock | nodes.CallBlock):
                self._forget(node)
                self._write({ANY})

    def _write(self, texts: set[str]) -> None:
        self.ends = {(end + text)[-TAIL:] for end in self.ends for text in texts}
        if len(self.ends) > MOST_ENDS:
            short = {end[-SHORT_TAIL:] for end in self.ends}
            self.ends = short if len(short) <= MOST_ENDS else {ANY}

    def _branch(self, node: nodes.If) -> None:
        rest = [*node.elif_[:1]]
        if rest:
            rest = [nodes.If(rest[0].test, rest[0].body, node.elif_[1:], node.else_)]
        paths = {True: node.body, False: rest or node.else_}
        holds = truth(value_of(node.test, self.scope))
        if holds is not None:
            self.run(paths[holds])
            return
        other = _Walk(dict(self.scope), set(self.ends))
        self.run(paths[True])
        other.run(paths[False])
        self._join(other)

    def _loop(self, node: nodes.For) -> None:
        self._forget(node)
        inside = _Walk(dict(self.scope), set(self.ends))
        inside.run(node.body)
        self.run(node.else_)
        self._join(inside)

    def _assign(self, node: nodes.Assign) -> None:
        if isinstance(node.target, nodes.NSRef):
            self.scope[f"{node.target.name}.{node.target.attr}"] = value_of(node.node, self.scope)
        elif isinstance(node.target, nodes.Name):
            name, made = node.target.name, node.node
            self.scope[name] = value_of(made, self.scope)
            if isinstance(made, nodes.Call) and isinstance(made.node, nodes.Name) and made.node.name == "namespace":
                fields = {f"{name}.{word.key}": value_of(word.value, self.scope) for word in made.kwargs}
                self.scope.update(fields)
        else:
            self._forget(node)

    def _forget(self, node: nodes.Node) -> None:
        self.scope.update(dict.fromkeys(assigned(node), UNKNOWN))

    def _join(self, other: "_Walk") -> None:
        self.ends |= other.ends
        for name in self.scope.keys() | other.scope.keys():
            mine, theirs = self.scope.get(name, UNKNOWN), other.scope.get(name, UNKNOWN)
            if type(mine) is not type(theirs) or mine != theirs:
                self.scope[name] = UNKNOWN
