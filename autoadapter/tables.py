"""YAML tables that come with AutoAdapter, read by libyaml where it is there: a tenth of the time that Python takes."""

from pathlib import Path
from typing import Any

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_table(path: Path) -> Any:
    """The document of a file.

    Raises:
        yaml.YAMLError: it is none, which is a fault of the installation.
    """
    loader = _Loader(path.read_text(encoding="utf-8"))
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
