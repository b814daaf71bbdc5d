"""vLLM and transformers give the same log-probabilities for a checkpoint."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

MODEL = os.environ.get("MODEL")
TOLERANCE = float(os.environ.get("TOLERANCE", "1e-3"))
"""Largest difference in float32; rounding alone."""
PROMPTS = ([11, 7, 29, 3, 17, 5, 23, 13, 19, 31, 37, 2], [5, 41, 6, 43])

pytestmark = pytest.mark.skipif(MODEL is None, reason="MODEL names no checkpoint")

REFERENCE = """
import sys, torch, transformers
model, out, *prompts = sys.argv[1:]
reference = transformers.AutoModelForCausalLM.from_pretrained(
    model,
    dtype=torch.float32,
    attn_implementation="eager",
).eval()
answers = []
for prompt in prompts:
    with torch.no_grad():
        logits = reference(input_ids=torch.tensor([[int(token) for token in prompt.split(",")]])).logits[0]
    answers.append(logits.float().log_softmax(dim=-1))
torch.save(answers, out)
"""
"""In a process of its own: vLLM changes classes of transformers when both are loaded."""


def test_same_log_probabilities(tmp_path: Path) -> None:
    from vllm import LLM, SamplingParams

    out = tmp_path / "reference.pt"
    prompts = [",".join(map(str, prompt)) for prompt in PROMPTS]
    subprocess.run([sys.executable, "-c", REFERENCE, str(MODEL), str(out), *prompts], check=True)
    answers = torch.load(out, weights_only=True)
    engine = LLM(
        model=str(MODEL),
        dtype="float32",
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=64,
        max_logprobs=-1,
        logprobs_mode="raw_logprobs",
    )
    params = SamplingParams(max_tokens=1, temperature=0, prompt_logprobs=-1, detokenize=False)
    outputs = engine.generate([{"prompt_token_ids": prompt} for prompt in PROMPTS], params, use_tqdm=False)
    for output, expected in zip(outputs, answers, strict=True):
        for position, found in enumerate(output.prompt_logprobs[1:]):
            values = torch.tensor([found[token].logprob for token in range(expected.shape[-1])])
            assert (values - expected[position]).abs().max() <= TOLERANCE, f"position {position}"
