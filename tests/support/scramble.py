"""Rewrites a model of transformers as remote code in which every class, function, module and weight has another name.

What stays: names of torch and transformers, config keys, and attributes that hold neither a module nor a parameter.
"""

import ast
import hashlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

LIBRARIES = {"torch", "nn", "F", "init", "math", "config"}
DROPPED_DECORATORS = ("auto_docstring", "use_kernel", "use_experts", "use_kernelized")
DROPPED_ATTRIBUTES = {"_tp_plan", "_pp_plan", "_no_split_modules", "_keys_to_ignore_on_load_unexpected"}
OWN_TENSORS = {"weight", "bias"}
INIT = """
def _init_weights(self, module):
    if hasattr(module, "made_with"):
        for name, buffer in type(module)(*module.made_with).named_buffers(recurse=False):
            if name in module._non_persistent_buffers_set:
                module.register_buffer(name, buffer, persistent=False)
"""
CONFIGURATION = """from {module} import {base}


class {name}({base}):
    model_type = "{model_type}"
"""


def scramble_code(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write `modeling_x.py` and `configuration_x.py` for the architecture of a config.

    Args:
        config: like a config.json: `architectures`, `model_type` and what the checkpoint states.
        folder: where to write; made if it is absent.

    Returns:
        The config of the scrambled architecture, with `auto_map`.
    """
    import transformers

    cls = getattr(transformers, config["architectures"][0])
    source = Path(inspect.getfile(cls)).read_text(encoding="utf-8")
    tree = ast.parse(source)
    base = cls.config_class
    names = _Names(tree, base.__name__)
    scrambled = ast.fix_missing_locations(_Scrambler(names, cls.__module__).visit(tree))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "modeling_x.py").write_text(ast.unparse(scrambled) + "\n", encoding="utf-8")
    model_type = word(config["model_type"])
    settings = CONFIGURATION.format(
        module=base.__module__, base=base.__name__, name=names.config, model_type=model_type
    )
    (folder / "configuration_x.py").write_text(settings, encoding="utf-8")
    auto_map = {"AutoConfig": f"configuration_x.{names.config}"}
    auto_map["AutoModelForCausalLM"] = f"modeling_x.{names.defined[cls.__name__]}"
    architecture = names.defined[cls.__name__]
    result = config | {"architectures": [architecture], "model_type": model_type, "auto_map": auto_map}
    (folder / "config.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result


def copy_weights(source: Any, target: Any) -> dict[str, str]:
    """Copy the parameters of a model to its scrambled twin; returns name → scrambled name.

    Both make their parameters in the same order.
    """
    import torch

    pairs = list(zip(source.named_parameters(), target.named_parameters(), strict=True))
    with torch.no_grad():
        for (name, value), (_, other) in pairs:
            assert value.shape == other.shape, name
            other.copy_(value)
    return {name: twin for (name, _), (twin, _) in pairs}


def word(name: str) -> str:
    """A word that says nothing, the same for the same name."""
    digits = hashlib.sha256(name.encode()).hexdigest()
    return "z" + "".join(chr(ord("a") + int(digit, 16)) for digit in digits[:7])


class _Names:
    """What a modeling file defines."""

    def __init__(self, tree: ast.Module, config: str) -> None:
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        self.defined = {node.name: word(node.name).capitalize() for node in classes}
        self.defined |= {node.name: word(node.name) for node in functions}
        self.config = word(config).capitalize()
        self.defined[config] = self.config
        self.own_tensors = {node.name: _assigned(node) & OWN_TENSORS for node in classes}
        self.attributes = {name: word(name) for node in classes for name in _assigned(node) - OWN_TENSORS}

    def path(self, dotted: str) -> str:
        """A dotted path of modules, part by part."""
        return ".".join(self.attributes.get(part, part) for part in dotted.split("."))


def _assigned(node: ast.ClassDef) -> set[str]:
    """Attributes of `self` that hold a module, a parameter or an activation."""
    found = set()
    for statement in ast.walk(node):
        if isinstance(statement, ast.Assign) and _is_self(statement.targets[0]) and _makes_module(statement.value):
            assert isinstance(statement.targets[0], ast.Attribute)
            found.add(statement.targets[0].attr)
    return found


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _makes_module(node: ast.AST) -> bool:
    if isinstance(node, ast.IfExp):
        return _makes_module(node.body) or _makes_module(node.orelse)
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id == "ACT2FN"
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Subscript):  # a class picked from a table
        return True
    if isinstance(node.func, ast.Attribute):
        return isinstance(node.func.value, ast.Name) and node.func.value.id == "nn" and node.func.attr[0].isupper()
    return isinstance(node.func, ast.Name) and node.func.id[0].isupper()


class _Scrambler(ast.NodeTransformer):
    def __init__(self, names: _Names, module: str) -> None:
        self._names, self._module = names, module
        self._class = ""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.level == 1 and (node.module or "").startswith("configuration"):
            renamed = [ast.alias(self._names.config) if self._names.defined.get(a.name) else a for a in node.names]
            return ast.ImportFrom("configuration_x", renamed, 1)
        if node.level:
            package = self._module.split(".")[: -node.level]
            return ast.ImportFrom(".".join([*package, node.module or ""]).rstrip("."), node.names, 0)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        outer, self._class = self._class, node.name
        node.decorator_list = _kept(node.decorator_list)
        node.body = [child for child in node.body if not _is_dropped(child)]
        if any(isinstance(base, ast.Name) and base.id == "PreTrainedModel" for base in node.bases):
            node.body.append(ast.parse(INIT).body[0])
        embedding, head = _first(node, r"(nn\.|\w*Word)Embedding\("), _first(node, r"nn\.Linear\(")
        if "ForCausalLM" in node.name or "LMHead" in node.name:
            node.body += _accessor("output", self._names.attributes.get(head, head))
            node.body += _accessor("input", "", through=True)
        elif embedding and any("PreTrained" in ast.unparse(base) for base in node.bases):
            node.body += _accessor("input", self._names.attributes.get(embedding, embedding))
        self.generic_visit(node)
        node.name = self._names.defined.get(node.name, node.name)
        self._class = outer
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = _kept(node.decorator_list)
        self.generic_visit(node)
        if node.name == "__init__" and re.search(r"Buffer\(|register_buffer\(", ast.unparse(node)):
            arguments = ", ".join(argument.arg for argument in node.args.args[1:])
            node.body.append(ast.parse(f"self.made_with = ({arguments},)").body[0])
        if not self._class:
            node.name = self._names.defined.get(node.name, node.name)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._names.defined.get(node.id, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        of_library = ast.unparse(node.value).split(".")[0] in LIBRARIES or ast.unparse(node.value).endswith("config")
        self.generic_visit(node)
        if node.attr in self._names.own_tensors.get(self._class, ()) and _is_self(node):
            node.attr = word(node.attr)
        elif node.attr in self._names.attributes and not of_library:
            node.attr = self._names.attributes[node.attr]
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and node.value and " " not in node.value and "\n" not in node.value:
            return ast.Constant(self._names.path(node.value))
        return node


def _kept(decorators: list[ast.expr]) -> list[ast.expr]:
    return [node for node in decorators if not ast.unparse(node).startswith(DROPPED_DECORATORS)]


def _is_dropped(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name == "_init_weights" or node.name.endswith(("_embeddings", "_embedding"))
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in DROPPED_ATTRIBUTES


def _first(node: ast.ClassDef, made_by: str) -> str:
    for statement in ast.walk(node):
        if isinstance(statement, ast.Assign) and _is_self(statement.targets[0]):
            if re.match(made_by, ast.unparse(statement.value)):
                return ast.unparse(statement.targets[0]).removeprefix("self.")
    return ""


def _accessor(which: str, attribute: str, *, through: bool = False) -> list[ast.stmt]:
    """Methods that hand out the embedding or the head, which transformers finds by name otherwise."""
    place = "self.base_model" if through else "self"
    get = f"{place}.get_{which}_embeddings()" if through else f"{place}.{attribute}"
    put = f"{place}.set_{which}_embeddings(value)" if through else f"{place}.{attribute} = value"
    code = f"def get_{which}_embeddings(self):\n    return {get}\n\ndef set_{which}_embeddings(self, value):\n    {put}"
    return list(ast.parse(code).body)
