"""Writers of small checkpoints, byte by byte from the formats' specifications, independent of the parsers."""

import io
import json
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

Shapes = Mapping[str, Sequence[int]]
GgufPair = tuple[str, int, object]

LLAMA: dict[str, JsonValue] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 16,
    "vocab_size": 10,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "eos_token_id": 2,
}
LLAMA_SHAPES: dict[str, Sequence[int]] = {
    "model.embed_tokens.weight": (10, 8),
    "model.layers.0.self_attn.k_proj.weight": (128, 8),
    "model.layers.0.mlp.gate_proj.weight": (16, 8),
    "lm_head.weight": (10, 8),
}
LLAMA_PARAMETERS = 80 + 1024 + 128 + 80


def safetensors_bytes(shapes: Shapes, dtype: str = "BF16", size: int = 2) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in shapes.items():
        count = size
        for dimension in shape:
            count *= dimension
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + count]}
        offset += count
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(offset)


def _text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _int(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _tuple(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def pickle_of(shapes: Shapes, storage: str = "FloatStorage") -> bytes:
    """What torch.save writes for a state dict, protocol 2."""
    rows = []
    for number, (name, shape) in enumerate(shapes.items()):
        count = 1
        for dimension in shape:
            count *= dimension
        persistent = _tuple(
            _text("storage"), f"ctorch\n{storage}\n".encode(), _text(str(number)), _text("cpu"), _int(count)
        )
        arguments = _tuple(
            persistent + b"Q",
            _int(0),
            _tuple(*map(_int, shape)),
            _tuple(*(_int(1) for _ in shape)),
            b"\x89",
            b"ccollections\nOrderedDict\n)R",
        )
        rows.append(_text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R")
    return b"\x80\x02ccollections\nOrderedDict\n)R(" + b"".join(rows) + b"u."


def torch_bytes(shapes: Shapes, pickled: bytes | None = None, itemsize: int = 4) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle_of(shapes) if pickled is None else pickled)
        for number, shape in enumerate(shapes.values()):
            count = itemsize
            for dimension in shape:
                count *= dimension
            archive.writestr(f"archive/data/{number}", bytes(count))
    return buffer.getvalue()


def _gguf_text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _gguf_value(kind: int, value: object) -> bytes:
    if kind == 8:
        return _gguf_text(str(value))
    if kind == 9 and isinstance(value, tuple):
        item, values = value
        return struct.pack("<IQ", item, len(values)) + b"".join(_gguf_value(item, one) for one in values)
    return struct.pack("<" + {4: "I", 5: "i", 6: "f", 7: "?", 10: "Q"}[kind], value)


def gguf_bytes(metadata: Sequence[GgufPair], tensors: Mapping[str, tuple[Sequence[int], int, int]]) -> bytes:
    """`tensors`: name → (shape in GGUF's order, GGML type, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, kind, value in metadata:
        head += _gguf_text(key) + struct.pack("<I", kind) + _gguf_value(kind, value)
    offset = 0
    for name, (shape, kind, size) in tensors.items():
        head += _gguf_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        offset += -(-size // 32) * 32
    return head + bytes(-len(head) % 32) + bytes(offset)


def gguf_llama(architecture: str = "llama") -> bytes:
    prefix = architecture
    metadata: list[GgufPair] = [
        ("general.architecture", 8, architecture),
        ("general.license", 8, "apache-2.0"),
        (f"{prefix}.context_length", 4, 256),
        (f"{prefix}.block_count", 4, 1),
        (f"{prefix}.embedding_length", 4, 64),
        (f"{prefix}.feed_forward_length", 4, 128),
        (f"{prefix}.attention.head_count", 4, 4),
        (f"{prefix}.attention.head_count_kv", 4, 2),
        (f"{prefix}.rope.dimension_count", 4, 16),
        (f"{prefix}.rope.freq_base", 6, 10000.0),
        ("tokenizer.ggml.model", 8, "gpt2"),
        ("tokenizer.ggml.tokens", 9, (8, ["<s>", "</s>", "a", "b"])),
        ("tokenizer.ggml.token_type", 9, (5, [3, 3, 1, 1])),
        ("tokenizer.ggml.bos_token_id", 4, 0),
        ("tokenizer.ggml.eos_token_id", 4, 1),
        ("tokenizer.chat_template", 8, "{{ messages }}"),
    ]
    tensors = {
        "token_embd.weight": ((64, 4), 0, 1024),
        "blk.0.attn_k.weight": ((64, 32), 3, 64 * 32 // 32 * 20),
        "blk.0.ffn_gate.weight": ((64, 128), 8, 64 * 128 // 32 * 34),
    }
    return gguf_bytes(metadata, tensors)


def write_model(
    folder: Path, config: Mapping[str, JsonValue] | None = None, files: Mapping[str, bytes | str] | None = None
) -> Path:
    """A folder with config.json and, unless `files` says otherwise, a small Llama's weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(LLAMA) | dict(config or {})))
    for name, content in ({"model.safetensors": safetensors_bytes(LLAMA_SHAPES)} if files is None else files).items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder
