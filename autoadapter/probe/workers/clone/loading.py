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
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from autoadapter.probe.workers.clone.keys import Stated, is_number, key_table, walk

LEGACY_ROPE = ("rope_theta", "rope_scaling")
MOST_PARAMETERS = 200_000_000
LARGE = 512
PROMPT = 29
"""Prime, so that no other axis is as long."""
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


def local_code(config: dict[str, Any], code: Path | None) -> dict[str, Any]:
    """The `auto_map` of a config whose code lies beside it; nothing where the code may not run."""
    if code is None or "auto_map" not in config:
        return {}
    own = {name: target.rpartition("--")[2] for name, target in config["auto_map"].items() if isinstance(target, str)}
    return {"auto_map": own}


def copy_code(code: Path, folder: Path) -> None:
    """Copy the Python files of a checkpoint, folders and all."""
    for file in code.rglob("*.py"):
        target = folder / file.relative_to(code)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def require_decoder(config: dict[str, Any]) -> None:
    """Refuse what is not a causal language model, or more than one.

    Raises:
        ValueError: its class is another's, or the config has a part for another modality; both are named.
    """
    name = (config.get("architectures") or [""])[0]
    if hasattr(transformers, name) and name not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        raise ValueError(f"{name} is not the class of a causal language model")
    for key, value in config.items():
        own = isinstance(value, dict) and key.endswith("_config") and key not in key_table().parts
        if own and ("model_type" in value or Stated(value).number("hidden")):
            raise ValueError(f"the config has a part `{key}` with a model of its own: it is more than a decoder")


def build(folder: Path, config: dict[str, Any], *, trust_remote_code: bool) -> nn.Module:
    """A model with fresh weights, float32, for the config that is written to `folder`.

    Raises:
        ValueError: it would be large: the config has sizes under keys that are not known as such.
    """
    text = json.dumps(config, indent=2, default=str)
    (folder / "config.json").write_text(text, encoding="utf-8")
    loaded = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code, local_files_only=True)
    with torch.device("meta"):
        parameters = sum(parameter.numel() for parameter in _fresh(loaded, config, trust_remote_code).parameters())
    if parameters > MOST_PARAMETERS:
        large = [key for key, value in walk(config) if is_number(value) and value > LARGE]
        raise ValueError(f"the small model has {parameters:,} parameters; unknown sizes may be among {large}")
    return _ready(_fresh(loaded, config, trust_remote_code))


def _fresh(loaded: PretrainedConfig, config: dict[str, Any], trust_remote_code: bool) -> nn.Module:
    cls = _model_class(config)
    if cls is None:
        return AutoModelForCausalLM.from_config(loaded, trust_remote_code=trust_remote_code, dtype=torch.float32)
    return cls._from_config(_own_config(loaded, cls), dtype=torch.float32)


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
