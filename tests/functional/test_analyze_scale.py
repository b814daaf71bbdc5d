"""What a model costs to analyze and size grows with its size and no faster."""

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoadapter.analyze import analyze, resolve_model
from autoadapter.analyze.layers import MOST_LAYERS
from autoadapter.errors import BrokenCheckpointError
from autoadapter.hardware import parse_hardware
from autoadapter.plan import SizingRequest, size_model

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
}  # fmt: skip
DECI: dict[str, Any] = {**LLAMA, "architectures": ["DeciLMForCausalLM"], "model_type": "nemotron-nas"}


def wide(layers: int) -> dict[str, Any]:
    """Every layer's width is its own."""
    return {**LLAMA, "num_hidden_layers": layers, "intermediate_size": [1024 + layer for layer in range(layers)]}


def blocks(layers: int) -> dict[str, Any]:
    """Every layer's block is its own, heads and all."""
    rows = [
        {"attention": {"n_heads_in_group": 1 << layer % 6}, "ffn": {"ffn_mult": 0.5 + layer / 1000}}
        for layer in range(layers)
    ]
    return {**DECI, "num_hidden_layers": layers, "block_configs": rows}


def seconds(folder: Path, config: dict[str, Any]) -> float:
    """Of analysis and sizing, the best of two."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    took = []
    for _ in range(2):
        began = time.process_time()
        profile = analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cuda")
        size_model(profile, SizingRequest(hardware=parse_hardware("h200:8"), vllm_version="0.32.0"))
        took.append(time.process_time() - began)
    return min(took)


@pytest.mark.parametrize("config", [wide, blocks])
def test_layers(tmp_path: Path, config: Callable[[int], dict[str, Any]]) -> None:
    few, many = seconds(tmp_path, config(MOST_LAYERS // 8)), seconds(tmp_path, config(MOST_LAYERS))
    assert many < 16 * few  # 8 times the layers; where it grew with their square it was 40 times and more


def test_more_layers_than_any_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(wide(MOST_LAYERS + 1)), encoding="utf-8")
    with pytest.raises(BrokenCheckpointError, match=r"num_hidden_layers is 2001, more layers than any model has\.$"):
        analyze(resolve_model(str(tmp_path)), vllm_version="0.32.0", platform="cuda")


def experts(count: int) -> dict[str, Any]:
    """The header of packed experts, three tensors a matrix."""
    header: dict[str, Any] = {}
    position = 0
    for expert in range(count):
        for part, dtype, shape, size in (
            ("packed", "I32", [2048, 896], 4), ("scale", "BF16", [2048, 224], 2), ("shape", "I64", [2], 8),
        ):  # fmt: skip
            for count_ in shape:
                size *= count_
            name = f"model.layers.{expert % 60}.mlp.experts.{expert // 60}.gate_proj.weight_{part}"
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + size]}
            position += size
    return header


def test_tensors(tmp_path: Path) -> None:
    header = experts(20_000)
    text = json.dumps(header).encode()
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "num_hidden_layers": 60}), encoding="utf-8")
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + max(row["data_offsets"][1] for row in header.values()))
    began = time.process_time()
    json.loads(text)
    parsed = time.process_time() - began
    began = time.process_time()
    profile = analyze(resolve_model(str(tmp_path)), vllm_version="0.32.0", platform="cuda")
    assert time.process_time() - began < 20 * parsed + 0.5
    assert profile.tensors.tensors == 60_000
