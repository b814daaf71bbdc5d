"""Log-probabilities from transformers for given tokens at given positions.

Run as `python logprobs.py REQUEST.json RESULT.json` in an interpreter that has torch and transformers.

Request: `model` (folder), `trust_remote_code` (whether code in that folder may run), `passes` (list of
`{name, dtype, logit_scale}`), `sequences` (list of `{ids, first, tokens}`): `tokens[i]` are the token ids asked for at
logits position `first + i`.
Result: pass name → list, one per sequence, of `{logprobs: [[float]], argmax: [int]}`.
Logits are scaled and normalised in float32 whatever dtype made them.
"""

import json
import sys
from pathlib import Path

import torch
import transformers


def progress(fraction: float, text: str) -> None:
    """Tell the parent where the work is."""
    print(f"@progress {fraction:.3f} {text}", flush=True)


def load(folder: str, dtype: str, trust_remote_code: bool) -> torch.nn.Module:
    """The model in eval mode; a class outside the causal mapping is taken by its name in config.json."""
    options = {"dtype": getattr(torch, dtype), "local_files_only": True}
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, trust_remote_code=trust_remote_code, **options
        )
    except ValueError:
        name = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))["architectures"][0]
        if not hasattr(transformers, name):
            raise
        model = getattr(transformers, name).from_pretrained(folder, **options)
    return model.eval()


def score(logits: torch.Tensor, tokens: list[list[int]], logit_scale: float) -> dict:
    """Log-probabilities of `tokens[i]` under row i of `logits` [positions, vocabulary]."""
    rows, best = [], []
    for start in range(0, len(tokens), 64):  # 64 rows of float32 vocabulary at a time
        part = (logits[start : start + 64].float() * logit_scale).log_softmax(-1)
        best += part.argmax(-1).tolist()
        for row, wanted in zip(part, tokens[start : start + 64], strict=True):
            rows.append(row[torch.tensor(wanted)].tolist())
    return {"logprobs": rows, "argmax": best}


@torch.inference_mode()
def run_dtype(request: dict, dtype: str) -> dict:
    """All passes that share a dtype: one load, one forward per sequence."""
    model = load(request["model"], dtype, request["trust_remote_code"])
    passes = [item for item in request["passes"] if item["dtype"] == dtype]
    sequences = request["sequences"]
    results: dict[str, list] = {item["name"]: [] for item in passes}
    for number, sequence in enumerate(sequences):
        progress(number / len(sequences), f"transformers {dtype}: text {number + 1} of {len(sequences)}")
        first, tokens = sequence["first"], sequence["tokens"]
        logits = model(input_ids=torch.tensor([sequence["ids"]]), use_cache=False).logits[0]
        for item in passes:
            results[item["name"]].append(score(logits[first : first + len(tokens)], tokens, item["logit_scale"]))
    return results


def main(request_file: str, result_file: str) -> None:
    """Read the request, write the result."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    results: dict = {}
    for dtype in dict.fromkeys(item["dtype"] for item in request["passes"]):
        results |= run_dtype(request, dtype)
    Path(result_file).write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
