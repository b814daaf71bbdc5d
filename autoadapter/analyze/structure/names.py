"""What a stored tensor belongs to, by its name with every index made 0.

Names: the checkpoints of transformers' families, vLLM's own and GGUF's (`blk.0.attn_q.weight`).
"""

import re
from functools import cache
from typing import Literal, NamedTuple

from autoadapter.analyze.headers.checkpoint import OTHER_TOWERS, is_head
from autoadapter.artifacts.model_structure import Split

Place = Literal["layer", "embedding", "head", "predictor", "image", "audio", "other"]
LAYER = re.compile(r"(?:^|\.)(?:layers|layer|h|blocks|block|blk)\.(?=0\.)")
PREDICTOR = re.compile(r"(?:^|\.)(?:mtp|nextn|mtp_layers|mtp_block|model_nextn)\.")
TOWER = re.compile(
    r"(?:^|\.)(?:embed_(?:vision|audio)|patch_merge_mlp|patch_merger|vision_language_adapter|connector|aligner|resampler"
    r"|merger|projector|sound_\w+)\."
)
AUDIO = re.compile(r"audio|speech|talker|wav|sound")
EMBEDDING = re.compile(
    r"(?:^|\.)(?:embed_tokens(?:_per_layer)?|word_embeddings|wte|embed_in|embeddings|tok_embeddings|token_embd|embed"
    r"|shared|per_layer_token_embd)(?:\.\w+)?$"
)
HEAD = re.compile(r"(?:^|\.)(?:lm_head|embed_out|output|head)\.\w+$")
EXPERTS = re.compile(
    r"(?<!shared_)(?<!share_)experts\.(?!score)|_exps\.|block_sparse_moe\.(?:input|output)_linear\."
    r"|(?:^|\.)moe\.(?:gate|up|down)_proj\."
)
SHARED = re.compile(r"shared?_expert|_shexp|shared_mlp")
KV = re.compile(
    r"(?:^|\.)(?:k_proj|v_proj|kv_proj|attn_k|attn_v|key|value|key_proj|value_proj|wk|wv|index_q_proj)\.\w+$"
)
FUSED = re.compile(r"(?:^|\.)(?:qkv_proj|query_key_value|c_attn|Wqkv|W_pack|attn_qkv|qkv)\.\w+$")
REPLICATED = re.compile(
    r"norm|(?:^|\.)(?:ln_\w+\.\w+|ln\d*\.\w+|gate\.\w+|router\b.*|ffn_gate_inp\.\w+|(?!o_a)\w*_a_proj\w*\.\w+|wq_a\.\w+|wkv\.\w+"
    r"|attn_q_a\.\w+|attn_kv_a_mqa\.\w+|compressor\..*|indexer\..*|index_k_proj\.\w+|fc[12]_latent_proj\.\w+"
    r"|routed_expert_\w+\.\w+|shared_expert_gate\.\w+|per_layer_\w+\.\w+|altup\..*|laurel\..*)$"
    r"|correction_bias|(?:^|\.)hc_\w+$|\.input_scale$|(?:o_proj|down_proj|dense|fc2|fc_out|c_proj|out_proj)\.bias$"
)
PARTS: dict[str, tuple[str, ...]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"), "query_key_value": ("q_proj", "k_proj", "v_proj"),
    "c_attn": ("q_proj", "k_proj", "v_proj"), "Wqkv": ("q_proj", "k_proj", "v_proj"),
    "W_pack": ("q_proj", "k_proj", "v_proj"), "attn_qkv": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"), "in_proj_qkvz": ("in_proj_qkv", "in_proj_z"),
    "input_linear": ("gate_proj", "up_proj"),
}  # fmt: skip
"""Fused matrices → those that they are made of."""
WORDS = {
    "attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": "o_proj", "ffn_gate": "gate_proj",
    "ffn_up": "up_proj", "ffn_down": "down_proj", "ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj",
    "ffn_down_exps": "down_proj", "w1": "gate_proj", "w3": "up_proj", "w2": "down_proj", "output_linear": "down_proj",
    "in_proj_b": "in_proj_ba", "in_proj_a": "in_proj_ba", "fc1": "up_proj", "fc2": "down_proj", "c_fc": "up_proj",
    "dense_h_to_4h": "up_proj", "dense_4h_to_h": "down_proj", "ffn_gate_inp": "gate", "router": "gate",
    "fc_in": "up_proj", "fc_out": "down_proj", "query": "q_proj", "key": "k_proj", "value": "v_proj",
}  # fmt: skip
"""Other words for a matrix → transformers' common one."""
OUTPUTS = ("out_proj", "dense", "c_proj", "wo")
"""Words for the output projection where the block is attention."""
STORED = re.compile(
    r"\.(weight\w*|qweight|qzeros|scales|g_idx|bias|absmax|quant_map|SCB|\w+_scale\w*|nested_\w+)$"
    r"|_(blocks|scales|bias)$"
)


NO_MATRIX = re.compile(r"bias$|[nN]orm|(?:^|\.)(?:ln_\w+|ln\d*|conv_?1d|conv)\.")


class Belonging(NamedTuple):
    """Where a kind of tensor stands."""

    place: Place
    split: Split | Literal["fused"] = "split"
    """`fused` is Q beside K and V."""
    start: int = 0
    """Where the layer's number begins in the name."""
    operators: tuple[str, ...] = ()
    """The matrices that it is, or is part of: several where it fuses them; none for norms and biases."""


@cache
def belonging(kind: str) -> Belonging:
    """Where a tensor belongs.

    Args:
        kind: its name with every whole part that is a number made 0.
    """
    if PREDICTOR.search(kind):
        return Belonging("predictor")
    if OTHER_TOWERS.search(kind) or (TOWER.search(kind) and not LAYER.search(kind)):
        return Belonging("audio" if AUDIO.search(kind) else "image")
    match = LAYER.search(kind)
    if match is not None:
        below = kind[match.end() + 2 :]
        return Belonging("layer", _split(below), match.end(), _operators(below))
    if is_head(kind) or HEAD.search(kind):
        return Belonging("head")
    return Belonging("embedding" if EMBEDDING.search(kind.removesuffix(".weight")) else "other")


def _split(below: str) -> Split | Literal["fused"]:
    if EXPERTS.search(below) and not SHARED.search(below):
        return "experts"
    if REPLICATED.search(below):
        return "replicated"
    if FUSED.search(below) and "linear_attn" not in below:
        return "fused"
    return "kv" if KV.search(below) else "split"


def _operators(below: str) -> tuple[str, ...]:
    """Names as `Operator.name` has them; biases and norms belong to none."""
    module = STORED.sub("", below)
    if (module == below and "_proj" not in below) or NO_MATRIX.search(below):
        return ()
    parts = module.split(".")
    word, block = parts[-1], parts[:-1]
    if word in OUTPUTS:
        word = _output(word, block)
    names = PARTS.get(word) or (WORDS.get(word, word),)
    prefix = _prefix(below, block)
    return tuple(prefix + name for name in names)


def _output(word: str, block: list[str]) -> str:
    if block[:1] == ["linear_attn"]:
        return "out_proj"
    if any("attn" in part or "attention" in part for part in block):
        return "o_proj"
    return "down_proj" if word == "c_proj" else word


def _prefix(below: str, block: list[str]) -> str:
    if ".shared_expert_gate." in f".{below}":
        return ""
    if SHARED.search(below):
        shared = next((part for part in block if SHARED.search(part)), "shared_experts")
        return f"{shared}."
    if EXPERTS.search(below):
        return "experts."
    return next((f"{part}." for part in block if part in ("indexer", "compressor", "laurel", "altup")), "")
