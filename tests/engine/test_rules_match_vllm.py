"""Layout rules and kernel rows against the installed vLLM's own code."""

import json
import subprocess
import textwrap
from typing import Any

import pytest

from autoadapter.artifacts.model_profile import MoeTraits, QuantizationTraits
from autoadapter.engine import find_engine
from autoadapter.engine.kernels import kernels
from autoadapter.plan.legality import Layout
from autoadapter.plan.legality.experts import refined_block
from autoadapter.plan.legality.heads import attention_heads, key_value_heads
from tests.unit.plan.sketches import llama_8b, qwen3_30b

pytestmark = pytest.mark.engine

HEADS = [(28, 4), (28, 28), (40, 8), (12, 2), (48, 16), (9, 3), (64, 8)]
SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 28]
WIDTHS = [640, 768, 1408, 1536, 2048, 2880, 3072]
ASK = """
import json, sys
from types import SimpleNamespace
import torch
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.model_executor.layers import linear
from vllm.model_executor.layers.fused_moe.oracle.fp8 import refine_fp8_moe_block_shape
from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS, get_quantization_config
heads, sizes, widths = json.loads(sys.argv[1])
taken, refined, lowest = [], {}, {}
with set_current_vllm_config(VllmConfig()):
    for query, cache in heads:
        for size in sizes:
            linear.get_tensor_model_parallel_world_size = lambda: size
            linear.get_tensor_model_parallel_rank = lambda: 0
            try:
                linear.QKVParallelLinear(query * 8, 8, query, cache, bias=False, params_dtype=torch.float32)
            except AssertionError as error:
                if "is not divisible by" in str(error):
                    continue
                if "parallel group is not initialized" not in str(error):  # past the division: the layer was taken
                    raise
            taken.append([query, cache, size])
for width in widths:
    for size in sizes:
        if width % size == 0:
            moe = SimpleNamespace(intermediate_size_per_partition=width // size, tp_size=size, hidden_dim=2048)
            refined[f"{width}/{size}"] = refine_fp8_moe_block_shape(moe, [128, 128])
for method in QUANTIZATION_METHODS:
    lowest[method] = get_quantization_config(method).get_min_capability()
print("ANSWER" + json.dumps({"taken": taken, "refined": refined, "lowest": lowest}))
"""


@pytest.fixture(scope="module")
def vllm() -> dict[str, Any]:
    """What the installed vLLM's code says."""
    question = json.dumps([HEADS, SIZES, WIDTHS])
    command = [str(find_engine().python), "-c", textwrap.dedent(ASK), question]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    answers = [line for line in done.stdout.splitlines() if line.startswith("ANSWER")]
    assert answers, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(answers[-1].removeprefix("ANSWER"))
    return answer


def test_heads_divide_and_repeat_as_in_vllm(vllm: dict[str, Any]) -> None:
    taken = {tuple(row) for row in vllm["taken"]}
    for query, cache in HEADS:
        base = llama_8b()
        traits = base.attention.model_copy(update={"num_attention_heads": query, "num_key_value_heads": cache})
        group = base.structure.groups[0]
        caches = (group.caches[0].model_copy(update={"kv_heads": cache}),)
        structure = base.structure.model_copy(update={"groups": (group.model_copy(update={"caches": caches}),)})
        model = base.model_copy(update={"attention": traits, "structure": structure})
        for size in SIZES:
            ours = attention_heads(model, size) is None and key_value_heads(model, size) is None
            assert ours == ((query, cache, size) in taken), (query, cache, size)


def test_blocks_of_experts_are_refined_as_in_vllm(vllm: dict[str, Any]) -> None:
    assert len(vllm["refined"]) > 40
    for case, theirs in vllm["refined"].items():
        width, size = map(int, case.split("/"))
        moe = MoeTraits(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=width)
        blocks = QuantizationTraits(method="fp8", bits=8, group_size=128, block_size=(128, 128), source="a test")
        model = qwen3_30b().model_copy(update={"moe": moe, "quantization": blocks})
        ours = refined_block(model, Layout(tensor=size))
        assert ours == (theirs[0] if theirs else None), case


def test_rows_know_the_methods_and_start_no_lower_than_vllm(vllm: dict[str, Any]) -> None:
    """ExLlama's floor of 60 is below what the wheels hold code for; rows begin at 7.0."""
    for row in kernels():
        known = [method for method in row.methods if method in vllm["lowest"]]
        assert bool(known) == (row.until is None), row.name
        starts = [int(float(run.from_) * 10) for run in row.runs]
        for method in known:
            assert min(starts) >= min(70, vllm["lowest"][method]), (row.name, method)
