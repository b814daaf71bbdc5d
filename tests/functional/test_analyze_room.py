"""`analyze` from a fresh interpreter: real checkpoints by real libraries, no torch, no network, in about a second."""

import json
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import save_file

SCRIPT = """
import json, sys, time
began = time.perf_counter()
from autoadapter.analyze import analyze, input_digest, resolve_model
ref = resolve_model(sys.argv[1])
profile = analyze(ref, vllm_version="0.32.0", platform="cpu")
again = type(profile).model_validate_json(profile.to_json())
print(json.dumps({
    "seconds": time.perf_counter() - began,
    "heavy": sorted({"torch", "transformers", "vllm", "gguf", "huggingface_hub"} & set(sys.modules)),
    "digest": input_digest(ref),
    "same": again == profile,
    "profile": json.loads(profile.to_json()),
}))
"""


def run(model: Path) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(model)], capture_output=True, text=True, check=True)
    document: dict[str, object] = json.loads(done.stdout)
    return document


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "intermediate_size": 64,
        "vocab_size": 16,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    shapes = {
        "model.embed_tokens.weight": (16, 32),
        "model.layers.0.self_attn.q_norm.weight": (32,),
        "model.layers.0.self_attn.k_proj.weight": (64, 32),
        "model.layers.0.mlp.gate_proj.weight": (64, 32),
    }
    save_file(
        {name: numpy.zeros(shape, numpy.float16) for name, shape in shapes.items()}, tmp_path / "model.safetensors"
    )
    return tmp_path


def test_local_folder_needs_nothing_heavy(checkpoint: Path) -> None:
    answer = run(checkpoint)
    assert answer["heavy"] == []
    assert answer["same"] is True
    profile = answer["profile"]
    assert isinstance(profile, dict)
    assert profile["tensors"]["parameters"] == 16 * 32 + 32 + 2 * 64 * 32
    assert profile["attention"]["qk_norm"] is True and profile["mlp"]["gated"] is True
    assert profile["memory"]["kv_bytes_per_token"] == 2 * 2 * 32 * 2
    assert profile["verdict"]["route"] == "native"


def test_library_of_its_own_reads_what_the_parser_reads(checkpoint: Path) -> None:
    from safetensors import safe_open

    from autoadapter.analyze.headers.safetensors import read_safetensors
    from autoadapter.analyze.sources import FileSource

    path = checkpoint / "model.safetensors"
    ours = {info.name: info.shape for info in read_safetensors(FileSource(path), path.name)}
    with safe_open(path, "numpy") as theirs:
        assert ours == {name: tuple(theirs.get_slice(name).get_shape()) for name in theirs.keys()}


@pytest.mark.engine
def test_sample_gguf(sample_gguf: Path) -> None:
    answer = run(sample_gguf)
    profile = answer["profile"]
    assert isinstance(profile, dict) and isinstance(answer["seconds"], float)
    assert answer["heavy"] == [] and answer["seconds"] < 5.0
    assert profile["tensors"]["parameters"] == 134_515_008
    assert profile["attention"]["num_key_value_heads"] == 3 and profile["memory"]["kv_bytes_per_token"] == 23_040
    assert profile["tokenizer"]["vocab_size"] == 49_152 and profile["tokenizer"]["stop_token_ids"] == [2]
    assert profile["verdict"]["outcome"] == "will_start" and profile["dependencies"]["extras"] == ["convert"]


@pytest.mark.engine
def test_converted_sample_is_the_same_model(sample_gguf: Path, sample_model: Path) -> None:
    before, after = run(sample_gguf)["profile"], run(sample_model)["profile"]
    assert isinstance(before, dict) and isinstance(after, dict)
    for key in ("architecture", "attention", "mlp", "rope", "embedding", "max_model_len"):
        assert before[key] == after[key]
    for key in ("kv_bytes_per_token", "served_weight_bytes", "served_dtype"):
        assert before["memory"][key] == after["memory"][key]
    assert before["tokenizer"]["stop_token_ids"] == after["tokenizer"]["stop_token_ids"]
