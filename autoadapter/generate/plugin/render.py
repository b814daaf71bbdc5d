"""`DecoderSpec` → the folder of an installable vLLM plugin."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.generate.plugin.api import check_known
from autoadapter.generate.plugin.configuration import ConfigurationModule
from autoadapter.generate.plugin.fingerprint import FingerprintModule
from autoadapter.generate.plugin.nested import with_inner_configs
from autoadapter.generate.plugin.package import (
    VERSION,
    EntryPoints,
    LoadingModule,
    LoadingTest,
    Metadata,
    Names,
    ParityTest,
    Pyproject,
    Registration,
)
from autoadapter.generate.plugin.readme import PluginReadme
from autoadapter.generate.plugin.views import ModelModule
from autoadapter.rendering.env import render
from autoadapter.rendering.view import View
from autoadapter.rendering.writer import replace_folder, write_tree

PREFIX = "plugin/"


@dataclass(frozen=True)
class PluginPackage:
    """A rendered plugin. `PYTHONPATH=<folder>` is enough for vLLM to load it."""

    package: str
    """Name to import: `vllm_adapter_llama`."""
    distribution: str
    """Name to install: `vllm-adapter-llama`."""
    folder: Path
    files: tuple[str, ...]
    """Paths below the folder, sorted."""

    def digest(self) -> str:
        """SHA-256 over the files, names included."""
        found = hashlib.sha256()
        for name in self.files:
            found.update(name.encode() + b"\0" + (self.folder / name).read_bytes() + b"\0")
        return found.hexdigest()


def render_plugin(spec: DecoderSpec, folder: Path, *, vllm_version: str, config: dict[str, Any]) -> PluginPackage:
    """Write the plugin that serves a decoder; it replaces the folder as a whole.

    Args:
        spec: what the model computes.
        folder: where the plugin goes.
        vllm_version: the release of vLLM that it is for.
        config: the checkpoint's own config.json.

    Raises:
        UnsupportedModelError: this vLLM, or a part of the spec, cannot be rendered for.
        StorageError: the disk is full or the folder may not be written.
    """
    check_known(vllm_version)
    names = Names.of(spec, config)
    spec = spec if names.config_class else with_inner_configs(spec)
    files = {_path(view, names): render(view) for view in _views(spec, names, vllm_version, config)}
    with replace_folder(folder) as draft:
        write_tree(draft, files)
    return PluginPackage(names.package, names.distribution, folder, tuple(sorted(files)))


def _views(spec: DecoderSpec, names: Names, vllm_version: str, config: dict[str, Any]) -> Iterator[View]:
    yield Registration.of(spec, names)
    yield ModelModule.of(spec, vllm_version)
    yield LoadingModule.of(spec)
    yield FingerprintModule.of(spec)
    yield PluginReadme.of(spec, names, vllm_version)
    yield LoadingTest()
    yield ParityTest(remote="auto_map" in config)
    if names.config_class:
        yield ConfigurationModule.of(spec, names, config)
    for view in (Pyproject, Metadata, EntryPoints):
        yield view.of(spec, names, vllm_version)


def _path(view: View, names: Names) -> str:
    """`plugin/__package__/model.py.j2` → `vllm_adapter_llama/model.py`."""
    path = view.template.removeprefix(PREFIX).removesuffix(".j2")
    dist_info = f"{names.distribution.replace('-', '_')}-{VERSION}.dist-info"
    return path.replace("__package__", names.package).replace("__dist_info__", dist_info)
