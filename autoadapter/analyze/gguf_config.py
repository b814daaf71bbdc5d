"""GGUF metadata in config.json's words, so that every axis reads one language.

Keys: the GGUF specification's per-architecture keys; the right-hand side is what transformers' GGUF loader writes.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from autoadapter.analyze.config import Config
from autoadapter.analyze.headers.checkpoint import Checkpoint
from autoadapter.analyze.headers.gguf import GgufValue
from autoadapter.artifacts import Finding, Level
from autoadapter.tables import read_table

KEYS = {
    "context_length": "max_position_embeddings",
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "attention.kv_lora_rank": "kv_lora_rank",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "leading_dense_block_count": "first_k_dense_replace",
    "shortconv.l_cache": "conv_L_cache",
    "ssm.conv_kernel": "conv_kernel",
    "ssm.state_size": "state_size",
    "ssm.inner_size": "d_inner",
}
TOKENS = {"bos": "bos_token_id", "eos": "eos_token_id", "padding": "pad_token_id"}
ROTATES_WHOLE_HEAD = ("llama", "mistral")
"""Architectures whose `rope.dimension_count` is the head size when `attention.key_length` is absent."""


class GgufArchitecture(NamedTuple):
    """A row of `gguf_architectures.yaml`."""

    architecture: str
    model_type: str


@cache
def gguf_architectures() -> dict[str, GgufArchitecture]:
    """All rows by GGUF architecture."""
    rows = read_table(Path(__file__).with_name("gguf_architectures.yaml"))
    return {name: GgufArchitecture(**row) for name, row in rows.items()}


def gguf_architecture(metadata: Mapping[str, GgufValue]) -> str:
    """`general.architecture`; `mistral` where a Llama file says that it is one, as transformers reads it."""
    name = str(metadata.get("general.architecture", ""))
    return "mistral" if name == "llama" and "mistral" in str(metadata.get("general.name", "")).lower() else name


def convertible(checkpoint: Checkpoint) -> bool:
    """Whether transformers can turn this GGUF into a checkpoint; Llama files with experts (Mixtral) it cannot."""
    name = gguf_architecture(checkpoint.metadata)
    has_experts = bool(checkpoint.metadata.get(f"{name}.expert_count")) or checkpoint.has(r"_exps\.")
    return name in gguf_architectures() and not (name in ROTATES_WHOLE_HEAD and has_experts)


def gguf_config(checkpoint: Checkpoint, file: str) -> Config:
    """A config as `config.json` would have it; an unknown architecture keeps its GGUF name."""
    metadata = checkpoint.metadata
    prefix = str(metadata.get("general.architecture", ""))
    name = gguf_architecture(metadata)
    row = gguf_architectures().get(name)
    data: dict[str, JsonValue] = {
        "architectures": [row.architecture if row else name],
        "model_type": row.model_type if row else name,
        "tie_word_embeddings": not checkpoint.has(r"^output\.weight$"),
    }
    for key, word in KEYS.items():
        data |= {word: _json(value)} if (value := metadata.get(f"{prefix}.{key}")) is not None else {}
    for role, word in TOKENS.items():
        number = metadata.get(f"tokenizer.ggml.{role}_token_id")
        data |= {word: number} if isinstance(number, int) else {}
    tokens = metadata.get("tokenizer.ggml.tokens")
    if "vocab_size" not in data and isinstance(tokens, list):
        data["vocab_size"] = len(tokens)
    _rotary(data, metadata, prefix, name)
    _convolutions(data)
    return Config(data, "GGUF metadata", file, _spelled(prefix))


def _spelled(prefix: str) -> dict[str, str]:
    keys = {word: f"{prefix}.{key}" for key, word in KEYS.items()}
    tokens = {word: f"tokenizer.ggml.{role}_token_id" for role, word in TOKENS.items()}
    return keys | tokens | dict.fromkeys(("architectures", "model_type"), "general.architecture")


def _json(value: GgufValue) -> JsonValue:
    return list(value) if isinstance(value, list) else value


def _rotary(data: dict[str, JsonValue], metadata: Mapping[str, GgufValue], prefix: str, name: str) -> None:
    width = metadata.get(f"{prefix}.rope.dimension_count")
    if isinstance(width, int):
        data.setdefault("head_dim" if name in ROTATES_WHOLE_HEAD else "rotary_dim", width)
    narrow = metadata.get(f"{prefix}.attention.key_length_swa")
    if isinstance(narrow, int) and data.get("head_dim") != narrow:
        data["global_head_dim"], data["head_dim"] = data.get("head_dim"), narrow


def _convolutions(data: dict[str, JsonValue]) -> None:
    """LFM2: layers without KV heads are convolutions."""
    if data["model_type"] == "lfm2":
        data["block_auto_adjust_ff_dim"] = False  # feed_forward_length is the width that the tensors have
    heads = data.get("num_key_value_heads")
    if isinstance(heads, list) and 0 in heads and "conv_L_cache" in data:
        data["layer_types"] = ["full_attention" if count else "conv" for count in heads]


def gguf_findings(checkpoint: Checkpoint) -> tuple[Finding, ...]:
    """What a conversion through transformers leaves behind."""
    prefix = checkpoint.metadata.get("general.architecture", "")
    scaling = checkpoint.metadata.get(f"{prefix}.rope.scaling.type")
    factors = checkpoint.find(r"^rope_freqs\.weight$")
    if scaling in (None, "none") and factors is None:
        return ()
    what = (
        f"RoPE scaling {scaling!r}" if scaling not in (None, "none") else "RoPE frequency factors (rope_freqs.weight)"
    )
    message = f"The file carries {what}, which transformers' GGUF loader does not keep; long contexts would be wrong."
    hint = "Use the model's safetensors checkpoint where there is one."
    source = f"GGUF {prefix}.rope.scaling.type" if factors is None else "tensor rope_freqs.weight"
    return (Finding(code="gguf.rope-scaling", level=Level.WARNING, message=message, hint=hint, source=source),)
