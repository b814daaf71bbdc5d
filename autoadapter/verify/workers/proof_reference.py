"""What transformers computes at vLLM's own tokens, and how far vLLM is from it.

Called by name in a fork of a process that has imported transformers; see `verify/proof/servers.py`.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file


def versions(_: dict[str, Any]) -> dict[str, Any]:
    """Versions of what computes here."""
    return {"transformers": transformers.__version__, "torch": torch.__version__}


def architectures(_: dict[str, Any]) -> dict[str, Any]:
    """Names of every causal language model class of this transformers."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as names

    found = {name for entry in names.values() for name in ([entry] if isinstance(entry, str) else entry)}
    return {"architectures": sorted(found)}


def load(folder: str, trust_remote_code: bool) -> torch.nn.Module:
    """The checkpoint's own class, in float32, with attention written out."""
    options = {"dtype": torch.float32, "attn_implementation": "eager", "local_files_only": True}
    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    name = config["architectures"][0]
    if trust_remote_code and "auto_map" in config:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, trust_remote_code=trust_remote_code, **options
        )
    else:
        model = getattr(transformers, name).from_pretrained(folder, **options)
    return model.eval()


@torch.no_grad()
def log_probabilities(model: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    """[tokens, vocabulary]; normalised in float32."""
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float().log_softmax(-1)


def distance(told: torch.Tensor, truth: torch.Tensor) -> float:
    """Largest absolute difference; infinite where one of them is no number and the other is."""
    if told.shape != truth.shape:
        return math.inf
    difference = torch.where(told == truth, torch.zeros_like(told), (told - truth).abs())
    return float(difference.nan_to_num(nan=math.inf).max()) if difference.numel() else 0.0


def measure(told: torch.Tensor, truth: torch.Tensor, prompt: int) -> dict[str, Any]:
    """Prefill and decode of one prompt. Rows are about the tokens 1, 2, …; `prompt - 1` of them are prefill."""
    parts = {"prefill": slice(0, prompt - 1), "decode": slice(prompt - 1, None)}
    width = min(told.shape[-1], truth.shape[-1])
    agree = (told[:, :width].argmax(-1) == truth[:, :width].argmax(-1)).float().mean()
    return {
        **{name: finite(distance(told[rows], truth[rows])) for name, rows in parts.items()},
        "first_wrong": next((at + 1 for at in range(len(told)) if distance(told[at], truth[at]) > 1e-3), None),
        "argmax_agreement": round(float(agree), 4),
        "vocabulary": [told.shape[-1], truth.shape[-1]],
    }


def finite(number: float) -> float | None:
    """JSON has no infinity: null stands for it."""
    return number if math.isfinite(number) else None


def compare(request: dict[str, Any]) -> dict[str, Any]:
    """Measure vLLM's answers.

    Request: `model`, `trust_remote_code`, `rounds`, `generated` and `tensors` as of `proof_engine.ask`.
    Result: `rounds` (per round, per prompt: see `measure`), `finite` (whether the reference computes numbers), `spread`
    (standard deviation of its log-probabilities: the smaller, the less a difference shows).
    """
    model = load(request["model"], request["trust_remote_code"])
    told = load_file(request["tensors"])
    rounds, seen = [], []
    for at, (prompts, continuations) in enumerate(zip(request["rounds"], request["generated"], strict=True)):
        batch = []
        for row, (prompt, more) in enumerate(zip(prompts, continuations, strict=True)):
            truth = log_probabilities(model, [*prompt, *more])[:-1]
            batch.append(measure(told[f"{at}.{row}"], truth, len(prompt)))
            seen.append(truth)
        rounds.append(batch)
    everything = torch.cat(seen)
    return {
        "rounds": rounds,
        "finite": bool(torch.isfinite(everything).all()),
        "spread": finite(float(everything.std())),
    }
