"""Packages that are loaded when they are first used: a command must not wait for stages that it does not run."""

import importlib.util
import sys
from types import ModuleType


def on_first_use(name: str) -> ModuleType:
    """A package that is executed at the first access to one of its attributes.

    Args:
        name: absolute, such as `autoadapter.deploy`.

    Raises:
        ModuleNotFoundError: there is none of that name.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
