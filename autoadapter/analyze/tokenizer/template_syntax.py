"""A chat template's Jinja syntax tree. Nothing is compiled and nothing is rendered."""

from collections.abc import Iterator
from functools import cache

import jinja2
from jinja2 import ext, nodes
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MOST_CHARACTERS = 256 * 1024
"""The longest templates in use have some 20,000."""


class GenerationBlocks(ext.Extension):
    """`{% generation %}`, with which transformers marks an assistant's words: its body stands for itself."""

    tags = {"generation"}  # noqa: RUF012  (jinja2 declares it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The nodes between the tag and its end."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@cache
def _environment() -> jinja2.Environment:
    """As transformers 5.19 `utils/chat_template_utils.py` parses chat templates."""
    return ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlocks, ext.loopcontrols]
    )


def parse_template(text: str) -> nodes.Template | str:
    """The tree, or why there is none, as the end of a sentence."""
    if len(text) > MOST_CHARACTERS:
        return f"has {len(text)} characters, and chat templates have some thousands"
    try:
        return _environment().parse(text)
    except jinja2.TemplateSyntaxError as error:
        return f"is not valid Jinja: {error.message} (line {error.lineno})"
    except (RecursionError, ValueError, OverflowError, MemoryError):
        return "is nested too deep or holds a number too long to be read"


def written(node: nodes.Node) -> Iterator[nodes.Node]:
    """All nodes below that can end in the output: conditions are left out."""
    left = [node]
    while left:
        item = left.pop()
        yield item
        asked = item.test if isinstance(item, nodes.If | nodes.CondExpr) else None
        left += [
            child
            for child in item.iter_child_nodes()
            if child is not asked and not isinstance(child, nodes.Test | nodes.Compare)
        ]


def texts(tree: nodes.Node) -> Iterator[str]:
    """Every text of the template: constants, and what stands between its tags."""
    for node in tree.find_all((nodes.Const, nodes.TemplateData)):
        value = getattr(node, "data", None) if isinstance(node, nodes.TemplateData) else getattr(node, "value", None)
        if isinstance(value, str):
            yield value


def compared(tree: nodes.Node) -> set[str]:
    """Texts that the template compares something with: roles, kinds of content."""
    return {text for comparison in tree.find_all(nodes.Compare) for text in texts(comparison)}


def names(tree: nodes.Node) -> set[str]:
    """Variables that are read."""
    return {name.name for name in tree.find_all(nodes.Name) if name.ctx == "load"}


def assigned(tree: nodes.Node) -> set[str]:
    """Variables, macros and attributes of namespaces (`ns.found`) that are set somewhere below."""
    stored = {name.name for name in tree.find_all(nodes.Name) if name.ctx in ("store", "param")}
    stored |= {macro.name for macro in tree.find_all(nodes.Macro)}
    return stored | {f"{ref.name}.{ref.attr}" for ref in tree.find_all(nodes.NSRef)}


def attributes(tree: nodes.Node) -> set[str]:
    """Names behind a dot, and constants between brackets."""
    dotted = {node.attr for node in tree.find_all(nodes.Getattr)}
    keys = {node.arg.value for node in tree.find_all(nodes.Getitem) if isinstance(node.arg, nodes.Const)}
    return dotted | {key for key in keys if isinstance(key, str)}
