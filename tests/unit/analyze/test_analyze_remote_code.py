"""Code of a checkpoint is read as a tree: what it imports, and what the engine's transformers lacks. Nothing runs."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.analyze.remote_code.imports import imports_of
from autoadapter.analyze.remote_code.installed import InstalledTransformers
from autoadapter.artifacts import Finding, Level, ModelProfile
from autoadapter.artifacts.model_profile import RemoteCode
from autoadapter.engine import EngineTarget
from tests.unit.analyze.analyze_files import LLAMA_SHAPES, safetensors_bytes, write_model

AUTO_MAP: dict[str, JsonValue] = {
    "auto_map": {"AutoConfig": "configuration_x.XConfig", "AutoModelForCausalLM": "modeling_x.XForCausalLM"},
    "model_type": "x-nas",
}
CONFIGURATION = "from transformers import PretrainedConfig\nclass XConfig(PretrainedConfig): ...\n"
MODELING = """
import math
import einops
from typing import TYPE_CHECKING
import torch.nn as nn
from transformers.utils import is_flash_attn_2_available, logging
from transformers.utils.import_utils import is_torch_fx_available
from transformers import AutoModel, GoneModel
from .configuration_x import XConfig
from . import helper_x
from .absent_x import nothing
if is_flash_attn_2_available():
    from flash_attn import flash_attn_func
try:
    import apex
    from transformers.old import name
except ImportError:
    apex = None
if TYPE_CHECKING:
    import numpy
open("{marker}", "w").write("this ran")
def late():
    import deepspeed
"""


def profile(folder: Path, engine: EngineTarget | None = None) -> ModelProfile:
    return analyze(resolve_model(str(folder)), vllm_version=engine or "0.32.0", platform="cpu")


def remote(folder: Path, engine: EngineTarget | None = None) -> RemoteCode:
    found = profile(folder, engine).remote_code
    assert found is not None
    return found


def codes(found: ModelProfile) -> dict[str, Finding]:
    return {finding.code: finding for finding in found.findings}


def model(folder: Path, config: Mapping[str, JsonValue] | None = None, /, **files: str) -> Path:
    named: dict[str, bytes | str] = {f"{name}.py": text for name, text in files.items()}
    return write_model(folder, config or AUTO_MAP, {"model.safetensors": safetensors_bytes(LLAMA_SHAPES), **named})


def whole(tmp_path: Path) -> Path:
    marker = str(tmp_path / "ran")
    files = {"configuration_x": CONFIGURATION, "modeling_x": MODELING.replace("{marker}", marker)}
    return model(tmp_path / "m", **files, helper_x="import triton\n", unused_x="import pandas\n")


@pytest.fixture
def engine(tmp_path: Path) -> EngineTarget:
    """An interpreter beside which a small transformers lies: this one, with a folder before its others."""
    site = tmp_path / "site"
    files = {
        "transformers/__init__.py": '_import_structure = {"utils": ["logging"], "configuration_utils": '
        '["PretrainedConfig"]}\n_create_module_alias(f"{__name__}.tokenization_utils", ".tokenization_python")\n',
        "transformers/utils/__init__.py": "from .import_utils import is_flash_attn_2_available\nfrom .more import *\n"
        "if True:\n    from . import logging\n",
        "transformers/utils/import_utils.py": "def is_flash_attn_2_available(): ...\n# is_torch_fx_available is gone\n",
        "transformers/utils/more.py": "ModelOutput = dict\n",
        "transformers/utils/logging.py": "",
        "transformers/tokenization_python.py": "class PreTrainedTokenizer: ...\n",
        "transformers/dynamic.py": "def __getattr__(name): ...\n",
        "transformers/models/auto/__init__.py": "from ...utils.import_utils import define_import_structure\n",
        "transformers/models/auto/modeling_auto.py": 'class AutoModel: ...\n__all__ = ["AutoModel"]\n',
        "transformers/models/llama/modeling_llama.py": '__all__ = ["LlamaModel", "LlamaTokenizer"]\n',
        "einops/__init__.py": "",
    }
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "transformers").write_text("a command of that name is no package")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nprintf '%s\\n' '{scripts}' '{site}' /nowhere\n")
    python.chmod(0o755)
    return EngineTarget(python, "0.32.0", "vllm", {"vllm": "0.32.0", "transformers": "5.1.0"})


def test_files_are_followed_from_auto_map(tmp_path: Path) -> None:
    found = remote(whole(tmp_path))
    assert found.scanned == ("configuration_x.py", "modeling_x.py", "helper_x.py")
    assert "unused_x.py" in found.files
    assert found.imports == ("deepspeed", "einops", "triton")
    assert found.optional_imports == ("apex", "flash_attn", "numpy")
    assert found.missing == ()
    assert found.not_run is not None


def test_nothing_of_it_runs(tmp_path: Path) -> None:
    before = set(sys.modules)
    remote(whole(tmp_path))
    assert not (tmp_path / "ran").exists()
    assert not {name for name in set(sys.modules) - before if name.endswith("_x") or name == "transformers"}


def test_names_that_the_engine_lacks(tmp_path: Path, engine: EngineTarget) -> None:
    found = profile(whole(tmp_path), engine)
    assert found.remote_code is not None
    assert found.remote_code.not_run is None
    assert found.remote_code.missing == (
        "transformers.utils.import_utils.is_torch_fx_available (modeling_x.py:7)",
        "transformers.GoneModel (modeling_x.py:8)",
    )
    told = codes(found)["remote-code.missing-name"]
    assert "modeling_x.py:7 imports is_torch_fx_available from transformers.utils.import_utils" in told.message
    assert "transformers 5.1.0" in told.message
    assert told.source == "modeling_x.py:7"


def test_packages_that_the_engine_lacks(tmp_path: Path, engine: EngineTarget) -> None:
    found = profile(whole(tmp_path), engine)
    needs = {(need.name, need.optional, need.installed) for need in found.dependencies.packages}
    assert {("einops", False, True), ("triton", False, False), ("flash_attn", True, False)} <= needs
    told = codes(found)["dependencies.package-missing"].message
    assert "deepspeed, triton" in told
    assert "flash_attn" not in told


HAS = {
    "lazy table": ("transformers", "PretrainedConfig"),
    "listed by a model": ("transformers", "LlamaModel"),
    "old name of a tokenizer": ("transformers", "LlamaTokenizerFast"),
    "a module as a name": ("transformers.utils", "logging"),
    "imported": ("transformers.utils", "is_flash_attn_2_available"),
    "by a star": ("transformers.utils", "ModelOutput"),
    "a file of a lazy package": ("transformers.models.auto", "AutoModel"),
    "an alias of a module": ("transformers.tokenization_utils", "PreTrainedTokenizer"),
    "made when asked for": ("transformers.dynamic", "anything"),
    "a module": ("transformers.models.llama.modeling_llama", None),
}
LACKS = {
    "a name in a comment": ("transformers.utils.import_utils", "is_torch_fx_available"),
    "a module": ("transformers.deepspeed", "is_deepspeed_zero3_enabled"),
    "a model": ("transformers", "GoneModel"),
    "a class of a model": ("transformers.models.llama.modeling_llama", "LlamaFlashAttention2"),
}


def installed(engine: EngineTarget) -> InstalledTransformers:
    return InstalledTransformers(engine.python.parent / "site" / "transformers")


@pytest.mark.parametrize("pair", HAS.values(), ids=HAS)
def test_names_that_an_installation_has(engine: EngineTarget, pair: tuple[str, str | None]) -> None:
    assert installed(engine).lacking([pair]) == set()


@pytest.mark.parametrize("pair", LACKS.values(), ids=LACKS)
def test_names_that_an_installation_lacks(engine: EngineTarget, pair: tuple[str, str | None]) -> None:
    assert installed(engine).lacking([pair]) == {pair}


BROKEN = {
    "syntax": ("def f(:\n", "is no valid Python"),
    "null byte": ("a = 1\0", "is no valid Python"),
    "too deep": ("a = " + "(" * 3000 + ")" * 3000, "is no valid Python"),
    "an else-if without end": ("if a: pass\n" + "elif b: pass\n" * 5000, "nested too deep"),
    "too large": ("#" * 1_100_000, "was not scanned"),
}


@pytest.mark.parametrize(("text", "problem"), BROKEN.values(), ids=BROKEN)
def test_files_that_cannot_be_read(tmp_path: Path, text: str, problem: str) -> None:
    found = profile(model(tmp_path / "m", configuration_x=text, modeling_x=MODELING))
    told = codes(found)["remote-code.unreadable"]
    assert told.message.startswith("configuration_x.py, which auto_map needs,")
    assert problem in told.message
    assert found.remote_code is not None
    assert "einops" in found.remote_code.imports


def test_files_that_are_not_there_or_elsewhere(tmp_path: Path) -> None:
    config: dict[str, JsonValue] = {
        "auto_map": {
            "AutoConfig": "configuration_x.XConfig",
            "AutoModel": "org/other--modeling_y.Y",
            "AutoModelForCausalLM": "../../etc/passwd.X",
            "AutoTokenizer": ["tokenization_x.X", None],
            "AutoProcessor": 7,
        }
    }
    found = profile(model(tmp_path / "m", config, tokenization_x="import sentencepiece\n"))
    absent = codes(found)["remote-code.absent"]
    assert absent.message.startswith("auto_map needs configuration_x.py, '../../etc/passwd.X', not to be found")
    assert absent.level is Level.INFO
    assert "org/other--modeling_y.Y" in codes(found)["remote-code.elsewhere"].message
    assert found.remote_code is not None
    assert found.remote_code.scanned == ("tokenization_x.py",)


def test_files_that_import_one_another_end(tmp_path: Path) -> None:
    found = remote(
        model(tmp_path / "m", configuration_x="from .modeling_x import a", modeling_x="from .configuration_x import b")
    )
    assert found.scanned == ("configuration_x.py", "modeling_x.py")


def test_a_chain_of_files_is_cut(tmp_path: Path) -> None:
    chain = {f"m{number}": f"from .m{number + 1} import a" for number in range(60)}
    found = remote(model(tmp_path / "m", {"auto_map": {"AutoConfig": "m0.C"}}, **chain))
    assert len(found.scanned) == 24


def test_guards() -> None:
    found = imports_of(b"if utils.is_x_available():\n  import a\nelse:\n  import b\nif y:\n  import c\n", "f.py")
    assert not isinstance(found, str)
    assert [(one.module, one.optional) for one in found] == [("a", True), ("b", True), ("c", False)]


def test_an_engine_that_does_not_run(tmp_path: Path) -> None:
    broken = EngineTarget(tmp_path / "none", "0.32.0", "vllm", {"transformers": "5.1.0"})
    found = remote(whole(tmp_path), broken)
    assert found.not_run == f"{tmp_path / 'none'} does not run"
