"""A tiny model on disk, and the command as a user calls it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 256,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@dataclass(frozen=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Answer]


def write_safetensors(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """A BF16 file with real offsets and zero data."""
    header: dict[str, object] = {}
    offset = 0
    for name, shape in shapes.items():
        size = 2
        for length in shape:
            size *= length
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(offset))


def llama_shapes() -> dict[str, tuple[int, ...]]:
    """Every tensor of the tiny Llama in `CONFIG`."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (256, 128), "model.norm.weight": (128,)}
    for layer in range(2):
        prefix = f"model.layers.{layer}."
        shapes |= {prefix + f"{name}.weight": (128,) for name in ("input_layernorm", "post_attention_layernorm")}
        shapes |= {prefix + "self_attn.q_proj.weight": (128, 128), prefix + "self_attn.o_proj.weight": (128, 128)}
        shapes |= {prefix + f"self_attn.{name}_proj.weight": (64, 128) for name in ("k", "v")}
        shapes |= {prefix + f"mlp.{name}_proj.weight": (256, 128) for name in ("gate", "up")}
        shapes |= {prefix + "mlp.down_proj.weight": (128, 256)}
    return shapes


def write_tiny_model(folder: Path) -> Path:
    """A checkpoint that is whole in every part that files can tell: config, weights, tokenizer."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    write_safetensors(folder / "model.safetensors", llama_shapes())
    special = [{"id": number, "content": text, "special": True} for number, text in enumerate(("<unk>", "<s>", "</s>"))]
    vocabulary = {row["content"]: row["id"] for row in special} | {f"t{number}": number for number in range(3, 256)}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{**row, **plain} for row in special],
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": "<unk>"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    roles = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(roles))
    return folder


@pytest.fixture
def tiny_model(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny-llama")


@pytest.fixture
def autoadapter(tmp_path: Path) -> Command:
    """Run the command in a folder of the test, without a terminal."""

    def call(*words: object, env: Mapping[str, str] | None = None) -> Answer:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AUTOADAPTER_")}
        command = [sys.executable, "-m", "autoadapter", *map(str, words)]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, env={**clean, "COLUMNS": "200", **(env or {})}
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return call
