"""Worker: a GGUF file or a `.bin` checkpoint → a safetensors folder that vLLM serves.

Runs in an interpreter with torch, transformers, gguf and accelerate: `python convert.py REQUEST.json RESULT.json`.
Request: `source` (folder), `gguf_file` (name or null), `output` (new folder), `dtype`, `trust_remote_code`.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer


def tell(fraction: float, text: str) -> None:
    """One progress line for the process that waits."""
    print(f"@progress {fraction:.2f} {text}", flush=True)


def dequantize() -> dict:
    """Newer transformers keep GGUF weights packed unless told otherwise; older ones know no such option."""
    kind = getattr(transformers, "GgufConfig", None)
    return {"quantization_config": kind(dequantize=True)} if kind else {}


def load(request: dict) -> tuple[torch.nn.Module, dict]:
    """The model at the wanted dtype, and transformers' account of which tensors it used.

    `.bin` files go through transformers' restricted unpickler (`weights_only=True`), which refuses code.
    """
    options = {"dtype": getattr(torch, request["dtype"]), "output_loading_info": True}
    if request["gguf_file"]:
        options |= {"gguf_file": request["gguf_file"], **dequantize()}
    else:
        options |= {
            "use_safetensors": False,
            "weights_only": True,
            "trust_remote_code": request["trust_remote_code"],
        }
    return AutoModelForCausalLM.from_pretrained(request["source"], **options)


def require_sound(model: torch.nn.Module, info: dict) -> None:
    """Refuse a model with invented or non-finite weights.

    Raises:
        ValueError: a parameter was not in the checkpoint (transformers would fill it with noise) or holds NaN/inf.
    """
    missing = sorted(info.get("missing_keys", ()))
    if missing:
        raise ValueError(f"the checkpoint lacks {len(missing)} tensors of the model, first {missing[0]}")
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            raise ValueError(f"the checkpoint is damaged: tensor {name} holds NaN or infinity")


def save_tokenizer(request: dict) -> None:
    """A GGUF carries its tokenizer inside; a folder's own files are copied by the caller, byte for byte."""
    if request["gguf_file"]:
        tokenizer = AutoTokenizer.from_pretrained(request["source"], gguf_file=request["gguf_file"])
        tokenizer.save_pretrained(request["output"])


def main(request_path: str, result_path: str) -> None:
    """Convert as the request says and write what was made."""
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    tell(0.05, "reading the checkpoint")
    model, info = load(request)
    tell(0.5, "checking every tensor")
    require_sound(model, info)
    tell(0.6, "writing safetensors")
    model.save_pretrained(request["output"])
    tell(0.95, "writing the tokenizer")
    save_tokenizer(request)
    result = {
        "tool": f"transformers {transformers.__version__}",
        "architecture": type(model).__name__,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "unused": sorted(info.get("unexpected_keys", ())),
    }
    Path(result_path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    torch.manual_seed(0)
    main(sys.argv[1], sys.argv[2])
