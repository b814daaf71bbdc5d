"""Write `autoadapter/analyze/dependencies/transformers_versions.json`: which transformers first knew a model type.

    python scripts/generate_transformers_versions.py --vllm SITE_PACKAGES/vllm

The first wheel of every minor version is downloaded by pip, its table of configurations is parsed (nothing of it is
imported), and it is deleted. `--vllm` names an unpacked vLLM whose own configurations are listed besides.
"""

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).parents[1] / "autoadapter" / "analyze" / "dependencies" / "transformers_versions.json"
OLDEST = (4, 40)
TABLES = ("transformers/models/auto/auto_mappings.py", "transformers/models/auto/configuration_auto.py")
NAME = "CONFIG_MAPPING_NAMES"
RELEASE = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\b")
FEWEST = 100
"""Model types of any release since 4.40; fewer mean that the table has moved."""


def main() -> int:
    """Generate the file and print its path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", type=Path, required=True, help="folder of an installed vllm package")
    arguments = parser.parse_args()
    known = {version: _types_of_wheel(version) for version in _minor_versions()}
    document = {
        "source": f"{NAME} in models/auto of the first wheel of each minor version of transformers",
        **_ranges(known),
        "vllm": _vllm_types(arguments.vllm / "transformers_utils" / "config.py"),
    }
    TARGET.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(TARGET)
    return 0


def _minor_versions() -> list[str]:
    """The first release of each minor version since the oldest, ascending."""
    asked = [sys.executable, "-m", "pip", "index", "versions", "transformers"]
    listing = subprocess.run(asked, capture_output=True, text=True, check=True, encoding="utf-8").stdout
    line = next(line for line in listing.splitlines() if line.startswith("Available versions:"))
    releases = sorted(tuple(map(int, match)) for match in RELEASE.findall(line))
    first: dict[tuple[int, ...], tuple[int, ...]] = {}
    for release in releases:
        if release[:2] >= OLDEST:
            first.setdefault(release[:2], release)
    return [".".join(map(str, release)) for release in first.values()]


def _types_of_wheel(version: str) -> set[str]:
    with tempfile.TemporaryDirectory() as folder:
        asked = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*asked, "--dest", folder, f"transformers=={version}"], check=True)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            there = [name for name in TABLES if name in wheel.namelist()]
            found = {key for name in there for key in _keys(wheel.read(name).decode())}
    if len(found) < FEWEST:
        raise SystemExit(f"transformers {version}: only {len(found)} model types found; the table has moved.")
    print(f"transformers {version}: {len(found)} model types", flush=True)
    return found


def _keys(source: str) -> Iterator[str]:
    """Keys given to the table where it is assigned and where it is updated."""
    for node in ast.parse(source).body:
        value: ast.expr | None = None
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == NAME for to in node.targets):
            value = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == NAME:
            value = node.value
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == NAME:
                value = node.value
        if value is not None:
            yield from _keys_of(value)


def _keys_of(value: ast.expr) -> Iterator[str]:
    """First items of pairs, keys of dictionaries, keywords of calls."""
    for node in ast.walk(value):
        keys: list[ast.expr | None] = []
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            keys = [node.elts[0]]
        elif isinstance(node, ast.Dict):
            keys = node.keys
        elif isinstance(node, ast.keyword) and node.arg is not None:
            yield node.arg
        for key in keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value


def _ranges(known: dict[str, set[str]]) -> dict[str, object]:
    """`first`: version → model types new in it. `last`: version → model types that no later one has."""
    first: dict[str, list[str]] = {}
    last: dict[str, list[str]] = {}
    versions = list(known)
    for model_type in sorted(set().union(*known.values())):
        having = [version for version in versions if model_type in known[version]]
        first.setdefault(having[0], []).append(model_type)
        if having[-1] != versions[-1]:
            last.setdefault(having[-1], []).append(model_type)
    return {
        "versions": versions,
        "first": {version: first[version] for version in versions if version in first},
        "last": {version: last[version] for version in versions if version in last},
    }


def _vllm_types(config: Path) -> list[str]:
    """Model types whose configuration vLLM carries itself."""
    for node in ast.parse(config.read_text(encoding="utf-8")).body:
        named = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if named and node.target.id == "_CONFIG_REGISTRY" and node.value is not None:
            return sorted(set(_keys_of(node.value)))
    raise SystemExit(f"{config} has no _CONFIG_REGISTRY.")


if __name__ == "__main__":
    raise SystemExit(main())
