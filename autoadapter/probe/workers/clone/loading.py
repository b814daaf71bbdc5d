"""Configs and models from a folder or from a dictionary, of transformers' own classes or of trusted remote code."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

LEGACY_ROPE = ("rope_theta", "rope_scaling")
PROMPT = 24
FIRST_TOKEN = 8
"""Below it lie the special tokens of a clone."""


def config_class(config: dict[str, Any], code: Path | None) -> type[PretrainedConfig]:
    """The class of a config; `code` is the folder of its remote code, given only when it is trusted.

    Raises:
        KeyError: transformers does not know the model type, and there is no code.
    """
    remote = config.get("auto_map", {}).get("AutoConfig")
    if code and remote:
        from transformers.dynamic_module_utils import get_class_from_dynamic_module

        return get_class_from_dynamic_module(remote, str(code), local_files_only=True)
    return CONFIG_MAPPING[config["model_type"]]


def complete(config: dict[str, Any], code: Path | None) -> dict[str, Any]:
    """A config with its class's defaults where it is silent, and with what its class does not know."""
    cls = config_class(config, code)
    whole = cls.from_dict(dict(config)).to_dict()
    renamed = set(cls.attribute_map) | (set(LEGACY_ROPE) if whole.get("rope_parameters") else set())
    return whole | {key: value for key, value in config.items() if key not in whole and key not in renamed}


def copy_code(code: Path, folder: Path) -> None:
    """Copy the Python files of a checkpoint, folders and all."""
    for file in code.rglob("*.py"):
        target = folder / file.relative_to(code)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def build(folder: Path, config: dict[str, Any], *, trust_remote_code: bool) -> nn.Module:
    """A model with fresh weights, float32, for the config that is written to `folder`."""
    text = json.dumps(config, indent=2, default=str)
    (folder / "config.json").write_text(text, encoding="utf-8")
    loaded = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code, local_files_only=True)
    cls = _model_class(config)
    if cls is None:
        model = AutoModelForCausalLM.from_config(loaded, trust_remote_code=trust_remote_code, dtype=torch.float32)
    else:
        model = cls._from_config(_own_config(loaded, cls), dtype=torch.float32)
    return _ready(model)


def open_clone(folder: Path, *, trust_remote_code: bool = False) -> tuple[nn.Module, Any]:
    """The model of a folder and its text config: float32, eager, in eval mode.

    Raises:
        OSError, ValueError: the folder is not a checkpoint that transformers can load.
    """
    quiet()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    cls = _model_class(config) or AutoModelForCausalLM
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code} if cls is AutoModelForCausalLM else {}
    model = _ready(cls.from_pretrained(folder, dtype=torch.float32, local_files_only=True, **options))
    return model, model.config.get_text_config(decoder=True)


def probe_ids(config: Any, tokens: int = PROMPT, seed: int = 7) -> torch.Tensor:
    """Token ids [1, tokens] without special ones, the same for the same arguments."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(FIRST_TOKEN, config.get_text_config(decoder=True).vocab_size, (1, tokens), generator=generator)


def logits_of(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """[sequences, tokens, vocabulary] without a cache."""
    with torch.no_grad():
        return model(input_ids=ids, use_cache=False).logits


def _model_class(config: dict[str, Any]) -> Any:
    """The class named in the config, of transformers; None where the code is remote."""
    names = config.get("architectures") or [""]
    return None if "auto_map" in config else getattr(transformers, names[0], None)


def _own_config(config: PretrainedConfig, cls: Any) -> PretrainedConfig:
    text = config.get_text_config(decoder=True)
    own = cls.config_class
    return config if own is None or isinstance(config, own) else text


def quiet() -> None:
    """No progress bars and no advice from transformers in a worker's output."""
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()


def _ready(model: nn.Module) -> nn.Module:
    """Eager attention and eager experts wherever there is a choice."""
    for choose in ("set_attn_implementation", "set_experts_implementation"):
        try:
            getattr(model, choose)("eager")
        except (AttributeError, ValueError, KeyError):
            continue
    return model.eval()
