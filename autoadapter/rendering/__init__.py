"""Templates to files: one Jinja environment, literal filters, an atomic writer."""

from autoadapter.rendering.env import render, templates_dir
from autoadapter.rendering.literals import py_literal, sh_literal
from autoadapter.rendering.view import View
from autoadapter.rendering.writer import replace_folder, to_yaml, write_atomically, write_tree

__all__ = [
    "View",
    "py_literal",
    "render",
    "replace_folder",
    "sh_literal",
    "templates_dir",
    "to_yaml",
    "write_atomically",
    "write_tree",
]
