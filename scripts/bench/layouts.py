"""Checkpoints whose headers are real and whose data are holes: any size of model in a few megabytes of disk."""

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path
from typing import Any

Tensor = tuple[str, str, tuple[int, ...]]
"""Name, dtype, shape."""
ITEM_BYTES = {"BF16": 2, "F8_E4M3": 1, "F32": 4}
BLOCK = 128
LIBRARY = {"library_name": "transformers"}


@dataclass(frozen=True)
class Layout:
    """A model that is written to disk for a measurement."""

    name: str
    shards: int
    config: dict[str, Any]
    merges: int
    """Of its tokenizer; the vocabulary is the config's."""

    def tensors(self) -> Iterator[Tensor]:
        """All of them, in the order of a real checkpoint."""
        return _mla_tensors(self.config) if "kv_lora_rank" in self.config else _dense_tensors(self.config)


def _llama(hidden: int, layers: int, heads: tuple[int, int], width: int, vocab: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "intermediate_size": width,
        "vocab_size": vocab,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }


DEEPSEEK_V3 = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "n_group": 8,
    "topk_group": 4,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "norm_topk_prob": True,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "routed_scaling_factor": 2.5,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "rope_theta": 10000,
    "rope_scaling": {
        "type": "yarn",
        "factor": 40,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
    },
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "quantization_config": {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [BLOCK, BLOCK],
    },
    "bos_token_id": 0,
    "eos_token_id": 1,
}

LAYOUTS = (
    Layout("135M", 1, _llama(576, 30, (9, 3), 1536, 49152), 48_900),
    Layout("8B", 4, _llama(4096, 32, (32, 8), 14336, 128256), 280_147),
    Layout("671B", 163, DEEPSEEK_V3, 127_741),
)
"""The sample model's size, an everyday model, and DeepSeek-V3 with its 163 shards."""


def _dense_tensors(config: dict[str, Any]) -> Iterator[Tensor]:
    hidden, width, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    keys = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    yield "model.embed_tokens.weight", "BF16", (vocab, hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for name, rows in (("q", hidden), ("k", keys), ("v", keys), ("o", hidden)):
            yield f"{prefix}self_attn.{name}_proj.weight", "BF16", (rows, hidden)
        for name, shape in (("gate", (width, hidden)), ("up", (width, hidden)), ("down", (hidden, width))):
            yield f"{prefix}mlp.{name}_proj.weight", "BF16", shape
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{prefix}{name}.weight", "BF16", (hidden,)
    yield "model.norm.weight", "BF16", (hidden,)
    yield "lm_head.weight", "BF16", (vocab, hidden)


def _mla_tensors(config: dict[str, Any]) -> Iterator[Tensor]:
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    yield "model.embed_tokens.weight", "BF16", (vocab, hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield f"{prefix}input_layernorm.weight", "BF16", (hidden,)
        yield f"{prefix}post_attention_layernorm.weight", "BF16", (hidden,)
        yield from _latent_attention(f"{prefix}self_attn.", config)
        if layer < config["first_k_dense_replace"]:
            yield from _block_fp8_mlp(f"{prefix}mlp.", hidden, config["intermediate_size"])
        else:
            yield from _experts(f"{prefix}mlp.", config)
    yield "model.norm.weight", "BF16", (hidden,)
    yield "lm_head.weight", "BF16", (vocab, hidden)


def _latent_attention(prefix: str, config: dict[str, Any]) -> Iterator[Tensor]:
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    query, latent = config["q_lora_rank"], config["kv_lora_rank"]
    nope, rope, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    yield from _block_fp8(f"{prefix}q_a_proj", (query, hidden))
    yield from _block_fp8(f"{prefix}q_b_proj", (heads * (nope + rope), query))
    yield from _block_fp8(f"{prefix}kv_a_proj_with_mqa", (latent + rope, hidden))
    yield from _block_fp8(f"{prefix}kv_b_proj", (heads * (nope + value), latent))
    yield from _block_fp8(f"{prefix}o_proj", (hidden, heads * value))
    yield f"{prefix}q_a_layernorm.weight", "BF16", (query,)
    yield f"{prefix}kv_a_layernorm.weight", "BF16", (latent,)


def _experts(prefix: str, config: dict[str, Any]) -> Iterator[Tensor]:
    hidden, width, experts = config["hidden_size"], config["moe_intermediate_size"], config["n_routed_experts"]
    yield f"{prefix}gate.weight", "BF16", (experts, hidden)
    yield f"{prefix}gate.e_score_correction_bias", "F32", (experts,)
    yield from _block_fp8_mlp(f"{prefix}shared_experts.", hidden, width * config["n_shared_experts"])
    for expert in range(experts):
        yield from _block_fp8_mlp(f"{prefix}experts.{expert}.", hidden, width)


def _block_fp8_mlp(prefix: str, hidden: int, width: int) -> Iterator[Tensor]:
    for name, shape in (("gate", (width, hidden)), ("up", (width, hidden)), ("down", (hidden, width))):
        yield from _block_fp8(f"{prefix}{name}_proj", shape)


def _block_fp8(name: str, shape: tuple[int, int]) -> Iterator[Tensor]:
    yield f"{name}.weight", "F8_E4M3", shape
    yield f"{name}.weight_scale_inv", "F32", (ceil(shape[0] / BLOCK), ceil(shape[1] / BLOCK))


def size_of(tensor: Tensor) -> int:
    """Bytes of a tensor."""
    _, dtype, shape = tensor
    return prod(shape) * ITEM_BYTES[dtype]


def write(layout: Layout, folder: Path) -> Path:
    """A model's folder: config, tokenizer, index and shards. Returns the folder."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(layout.config), encoding="utf-8")
    _write_tokenizer(folder, layout)
    tensors = list(layout.tensors())
    total = sum(map(size_of, tensors))
    groups: list[list[Tensor]] = [[] for _ in range(layout.shards)]
    done = 0
    for tensor in tensors:
        groups[min(layout.shards - 1, done * layout.shards // total)].append(tensor)
        done += size_of(tensor)
    index = {}
    for number, group in enumerate(groups, 1):
        file = f"model-{number:05}-of-{layout.shards:05}.safetensors" if layout.shards > 1 else "model.safetensors"
        _write_shard(folder / file, group)
        index.update({name: file for name, _, _ in group})
    if layout.shards > 1:
        document = {"metadata": {"total_size": total}, "weight_map": index}
        (folder / "model.safetensors.index.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def _write_shard(path: Path, tensors: Iterable[Tensor]) -> None:
    header, offset = {}, 0
    for tensor in tensors:
        name, dtype, shape = tensor
        end = offset + size_of(tensor)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)


def _write_tokenizer(folder: Path, layout: Layout) -> None:
    """A byte-level BPE of the right size: reading it is a good part of analyzing a small model."""
    vocab = layout.config["vocab_size"]
    special = [{"id": number, "content": text, "special": True} for number, text in enumerate(("<s>", "</s>"))]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    words = {"<s>": 0, "</s>": 1} | {f"Ġw{number:x}": number for number in range(2, vocab)}
    document = {
        "version": "1.0",
        "added_tokens": [{**row, **plain} for row in special],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": words,
            "merges": [f"Ġw{2 + number % (vocab - 2):x} w{number:x}" for number in range(layout.merges)],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    roles = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({**roles, "chat_template": template}), encoding="utf-8")
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": 0, "eos_token_id": 1}), encoding="utf-8")
