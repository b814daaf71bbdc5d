"""Worker: what vLLM itself makes of config.json files. Run by path in the engine's interpreter.

Request: `launcher`, `folder` (scratch), `configs`. Result: `answers`, one each: `max_model_len`, or `error` with the
first thing that vLLM or transformers refuses, of config, RoPE and quantization.
"""

import contextlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

REQUEST = json.loads(Path(sys.argv[1]).read_text())
sys.path.insert(0, REQUEST["launcher"])
importlib.import_module("launcher")

import vllm.model_executor.layers.rotary_embedding.phi3_long_rope_scaled_rope as longrope  # noqa: E402
from vllm.config import VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.config.model import _get_and_verify_max_len  # noqa: E402
from vllm.model_executor.layers.quantization import get_quantization_config  # noqa: E402
from vllm.model_executor.layers.rotary_embedding import get_rope  # noqa: E402
from vllm.transformers_utils.config import get_config, get_hf_text_config, iter_rope_parameters  # noqa: E402
from vllm.transformers_utils.model_arch_config_convertor import (  # noqa: E402
    MODEL_ARCH_CONFIG_CONVERTORS,
    ModelArchConfigConvertorBase,
)


def read(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    """The length that vLLM serves by default; raises what vLLM raises."""
    (folder / "config.json").write_text(json.dumps(document))
    config = get_config(str(folder), trust_remote_code=False)
    text = get_hf_text_config(config)
    kind = MODEL_ARCH_CONFIG_CONVERTORS.get(config.model_type, ModelArchConfigConvertorBase)
    facts = kind(config, text).convert()
    length = _get_and_verify_max_len(text, facts, None, None, False, None)
    for parameters in iter_rope_parameters(text):
        get_rope(facts.head_size, 128, rope_parameters=dict(parameters))
    if facts.quantization_config is not None:
        method = facts.quantization_config["quant_method"]
        get_quantization_config(method).from_config(json.loads(json.dumps(facts.quantization_config)))
    return {"max_model_len": length}


class _AnyConfig:
    class model_config:
        max_model_len = 128


def main() -> None:
    """Answer the request."""
    longrope.get_current_vllm_config = _AnyConfig
    folder = Path(REQUEST["folder"])
    answers = []
    for document in REQUEST["configs"]:
        with contextlib.redirect_stdout(sys.stderr), set_current_vllm_config(VllmConfig()):
            try:
                answers.append(read(folder, document))
            except Exception as error:
                answers.append({"error": f"{type(error).__name__}: {str(error)[:300]}"})
    Path(sys.argv[2]).write_text(json.dumps({"answers": answers}))


if __name__ == "__main__":
    main()
