"""Worker: token log-likelihoods of two checkpoints of one model on the same windows of held-out text.

Runs in the quantizer's environment: `python perplexity.py REQUEST.json RESULT.json`.
Request: `before`, `after` (folders), `text` (file), `windows`, `window_tokens`, `dtype`, `trust_remote_code`.
Result: `before`, `after`: lists of windows, each a list of negative log-likelihoods in nats.
"""

import gc
import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer


def tell(fraction: float, text: str) -> None:
    """One progress line for the process that waits."""
    print(f"@progress {fraction:.2f} {text}", flush=True)


def windows(ids: list[int], count: int, length: int) -> list[list[int]]:
    """At most `count` windows of `length` tokens, disjoint and spread evenly over the text."""
    length = min(length, len(ids))
    count = max(1, min(count, len(ids) // length))
    room = len(ids) - length * count
    return [ids[(at := index * length + room * index // count) : at + length] for index in range(count)]


@torch.no_grad()
def likelihoods(folder: str, chosen: list[list[int]], request: dict, span: tuple[float, float]) -> list[list[float]]:
    """Negative log-likelihood of each token after the first of each window, computed one window at a time."""
    trust = {"trust_remote_code": request["trust_remote_code"]}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, request["dtype"]), **trust).eval()
    device = next(model.parameters()).device
    found = []
    for index, window in enumerate(chosen):
        tell(span[0] + (span[1] - span[0]) * (index + 1) / len(chosen), f"perplexity: window {index + 1}")
        ids = torch.tensor([window], device=device)
        logits = model(ids, use_cache=False).logits[0, :-1].float()
        losses = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none")
        found.append([round(loss, 6) for loss in losses.tolist()])
    del model
    gc.collect()
    return found


def main(request_path: str, result_path: str) -> None:
    """Measure both checkpoints and write their token losses."""
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(request["before"], trust_remote_code=request["trust_remote_code"])
    ids = tokenizer(Path(request["text"]).read_text(encoding="utf-8"), add_special_tokens=False).input_ids
    chosen = windows(ids, request["windows"], request["window_tokens"])
    tell(0.05, "loading both checkpoints")
    result = {
        "tool": f"transformers {transformers.__version__}",
        "before": likelihoods(request["before"], chosen, request, (0.05, 0.5)),
        "after": likelihoods(request["after"], chosen, request, (0.5, 1.0)),
    }
    Path(result_path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
