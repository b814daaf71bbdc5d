"""Matrices of attention: plain and grouped heads, latent attention, DeepSeek-V4's compressed one.

Shapes: the models' own code in vLLM 0.32 (`models/deepseek_v4/`, `models/kimi_k3/`, `model_executor/models/`).
"""

from autoadapter.analyze import kv_cache
from autoadapter.analyze.config import Config
from autoadapter.analyze.layers import SLIDING, layer_count
from autoadapter.analyze.structure.caches import OVERLAPPING, has_indexer
from autoadapter.analyze.structure.parts import LayerShape, Matrix, Parts, Vector, names_of

BIAS_OF_QKV = {
    "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen", "chatglm", "step3_text",
    "starcoder2", "qwen2_5_omni_thinker", "qwen2_5_omni_text", "qwen2_audio",
}  # fmt: skip
"""Families that give the Q, K and V projections biases whatever the config says."""
BIAS_OF_ALL = {
    "gpt2", "gpt_neox", "opt", "bloom", "phi", "gpt_bigcode", "gptj", "codegen", "bert", "roberta", "xlm-roberta",
    "biogpt", "xglm",
}  # fmt: skip
"""Families with biases on all projections of a layer unless the config says otherwise."""
OUTPUT_TOO = {"gpt_oss", "llama", "starcoder2", "granite", "exaone", "mistral", "helium", "phi3"}
"""Families where `attention_bias` reaches the output projection, too (transformers 5.19 modelling files)."""
GATED = ("qwen3_next", "qwen3_5")
"""Beginnings of the model types whose Q projection brings an output gate along."""
OUTPUT_GATE = {"afmoe"}
"""Families with a projection of its own for the output gate."""
QK_NORM = (
    "qwen3", "gemma3", "gemma4", "olmo2", "olmo3", "minimax_m", "lfm2", "exaone4", "exaone_moe", "hunyuan", "glm4_moe",
    "step3p", "dots1", "apertus", "cohere2_moe", "flex_olmo", "olmoe", "ernie4_5_vl",
)  # fmt: skip
WHOLE_WIDTH = ("olmo2", "olmo3", "minimax_m2", "flex_olmo", "olmoe")
"""Families that normalize all heads of Q and K at once."""


def attention_parts(config: Config, shape: LayerShape) -> Parts:
    """What attention of one layer is made of."""
    if config.found("compress_ratios") and config.found("o_lora_rank"):
        return _compressed(config, shape)
    if config.found("kv_lora_rank"):
        return _latent(config, shape)
    return _heads(config, shape)


def query_heads(config: Config, shape: LayerShape) -> int:
    """Query heads of one layer."""
    listed = config.integers(*kv_cache.HEADS)
    heads = listed[shape.number] if listed and shape.number < len(listed) else kv_cache.attention_heads(config)
    if shape.mixer == SLIDING:
        return config.integer("swa_num_attention_heads", f"{kv_cache.OF_SLIDING}.num_attention_heads") or heads
    return heads


def _heads(config: Config, shape: LayerShape) -> Parts:
    hidden, model_type = config.integer(*kv_cache.HIDDEN) or 0, config.text("model_type") or ""
    block = names_of(model_type).attention
    heads, kv = query_heads(config, shape), kv_cache.layer_heads(config, shape.number, shape.mixer)
    inputs = hidden * (2 if model_type == "zamba2" else 1)
    on_qkv, on_output = _biases(config, model_type)
    gated = config.flag("attn_output_gate") is True or model_type.startswith(GATED)
    query = heads * kv.key_dim * (2 if gated else 1)
    wide, high = kv.kv_heads * kv.key_dim, kv.kv_heads * kv.value_dim
    matrices = [Matrix("q_proj", f"{block}.q_proj", inputs, query, "split", bias=query * on_qkv)]
    if not _reads_another(config, shape.number):
        matrices += [
            Matrix("k_proj", f"{block}.k_proj", inputs, wide, "kv", bias=wide * on_qkv),
            Matrix("v_proj", f"{block}.v_proj", inputs, high, "kv", bias=high * on_qkv),
        ]
    output = heads * kv.value_dim
    if model_type in OUTPUT_GATE or config.flag("use_head_wise_attn_gate"):
        wide_gate = output if model_type in OUTPUT_GATE else heads
        matrices.append(Matrix("attn_gate", f"{block}.gate_proj", hidden, wide_gate, "split"))
    matrices.append(Matrix("o_proj", f"{block}.o_proj", output, hidden, "split", bias=hidden * on_output))
    vectors = [*_norms(config, model_type, heads * kv.key_dim, wide, kv.key_dim), *_sinks(config, shape, heads)]
    return Parts(tuple(matrices), tuple(vectors)).plus(_block_index(config, shape, hidden))


def _reads_another(config: Config, layer: int) -> bool:
    shared = config.integer("num_kv_shared_layers") or 0
    return 0 < shared and layer >= layer_count(config) - shared


def _biases(config: Config, model_type: str) -> tuple[bool, bool]:
    """Whether Q, K and V have biases, and whether the output has one."""
    said = config.flag("attention_bias", "qkv_bias", "add_qkv_bias", "use_qkv_bias", "use_bias", "bias", "enable_bias")
    if model_type in BIAS_OF_ALL:
        return (
            (True, True) if model_type in ("phi", "gpt2", "bloom", "gpt_neox") or said is not False else (False, False)
        )
    if model_type in BIAS_OF_QKV:
        return True, model_type in OUTPUT_TOO
    return said is True, said is True and model_type in OUTPUT_TOO


def _norms(config: Config, model_type: str, query: int, key: int, width: int) -> list[Vector]:
    said = config.flag("use_qk_norm", "qk_layernorm", "qk_norm")
    if said is False or not (said or model_type.startswith(QK_NORM)):
        return []
    return [Vector(query), Vector(key)] if model_type.startswith(WHOLE_WIDTH) else [Vector(width), Vector(width)]


def _sinks(config: Config, shape: LayerShape, heads: int) -> list[Vector]:
    key = "add_swa_attention_sink_bias" if shape.mixer == SLIDING else "add_full_attention_sink_bias"
    has = config.text("model_type") == "gpt_oss" or config.flag(key) is True
    return [Vector(heads, "split")] if has else []


def _block_index(config: Config, shape: LayerShape, hidden: int) -> Parts:
    """MiniMax-M3: index queries and one index key beside the heads."""
    marked = config.integers("sparse_attention_config.sparse_attention_freq") or ()
    width = config.integer("sparse_attention_config.sparse_index_dim") or 0
    heads = config.integer("sparse_attention_config.sparse_num_index_heads") or 0
    if shape.number >= len(marked) or not marked[shape.number] or not width:
        return Parts()
    block = names_of(config.text("model_type") or "").attention
    return Parts(
        (
            Matrix("index_q_proj", f"{block}.index_q_proj", hidden, heads * width, "kv"),
            Matrix("index_k_proj", f"{block}.index_k_proj", hidden, width, "replicated"),
        ),
        (Vector(2 * width),),
    )


def _latent(config: Config, shape: LayerShape) -> Parts:
    hidden, heads = config.integer(*kv_cache.HIDDEN) or 0, kv_cache.attention_heads(config)
    block = names_of(config.text("model_type") or "").attention
    nope, rope = config.integer("qk_nope_head_dim") or 0, config.integer("qk_rope_head_dim") or 0
    value, rank, low = (config.integer(key) or 0 for key in ("v_head_dim", "kv_lora_rank", "q_lora_rank"))
    query = heads * (nope + rope)
    first = (
        [
            Matrix("q_a_proj", f"{block}.q_a_proj", hidden, low, "replicated"),
            Matrix("q_b_proj", f"{block}.q_b_proj", low, query, "split"),
        ]
        if low
        else [Matrix("q_proj", f"{block}.q_proj", hidden, query, "split")]
    )
    rest = [
        Matrix("kv_a_proj_with_mqa", f"{block}.kv_a_proj_with_mqa", hidden, rank + rope, "replicated"),
        Matrix("kv_b_proj", f"{block}.kv_b_proj", rank, heads * (nope + value), "split"),
        Matrix("o_proj", f"{block}.o_proj", heads * value, hidden, "split"),
    ]
    if config.flag("mla_use_output_gate"):
        rest.append(Matrix("g_proj", f"{block}.g_proj", hidden, heads * value, "split"))
    parts = Parts((*first, *rest), (Vector(low), Vector(rank)))
    return parts.plus(_indexer(config, block, low or hidden) if has_indexer(config, shape.number) else Parts())


def _indexer(config: Config, block: str, low: int) -> Parts:
    """Sparse attention's own queries and keys, whole on every rank; its head weights stay as they are."""
    width, heads = config.integer("index_head_dim"), config.integer("index_n_heads")
    hidden = config.integer(*kv_cache.HIDDEN) or 0
    if not width or not heads:
        return Parts()
    names = f"{block}.indexer"
    matrices = (
        Matrix("indexer.wq_b", f"{names}.wq_b", low, heads * width, "replicated"),
        Matrix("indexer.wk", f"{names}.wk", hidden, width, "replicated", quantizable=False),
        Matrix("indexer.weights_proj", f"{names}.weights_proj", hidden, heads, "replicated", quantizable=False),
    )
    return Parts(matrices, (Vector(2 * width),))


def _compressed(config: Config, shape: LayerShape) -> Parts:
    """DeepSeek-V4: low-rank queries, one latent for all heads, a grouped low-rank output, compressors."""
    hidden, heads, width = (
        config.integer(*kv_cache.HIDDEN) or 0,
        kv_cache.attention_heads(config),
        kv_cache.head_dim(config),
    )
    low, out, groups = (config.integer(key) or 1 for key in ("q_lora_rank", "o_lora_rank", "o_groups"))
    block = names_of("deepseek_v4").attention
    matrices = (
        Matrix("wq_a", f"{block}.wq_a", hidden, low, "replicated"),
        Matrix("wkv", f"{block}.wkv", hidden, width, "replicated"),
        Matrix("wq_b", f"{block}.wq_b", low, heads * width, "split"),
        Matrix("wo_a", f"{block}.wo_a", heads * width // groups, groups * out, "split"),
        Matrix("wo_b", f"{block}.wo_b", groups * out, hidden, "split"),
    )
    parts = Parts(matrices, (Vector(low), Vector(width), Vector(heads, "split", 32)))
    ratios = config.integers("compress_ratios") or ()
    ratio = ratios[shape.number] if shape.number < len(ratios) else 1
    if ratio <= 1:
        return parts
    parts = parts.plus(_compressor(f"{block}.compressor", hidden, width, ratio))
    if ratio != OVERLAPPING:
        return parts
    index, count = config.integer("index_head_dim") or 0, config.integer("index_n_heads") or 0
    own = (
        Matrix("indexer.wq_b", f"{block}.indexer.wq_b", low, count * index, "replicated"),
        Matrix("indexer.weights_proj", f"{block}.indexer.weights_proj", hidden, count, "replicated", quantizable=False),
    )
    return parts.plus(Parts(own)).plus(_compressor(f"{block}.indexer.compressor", hidden, index, ratio))


def _compressor(module: str, hidden: int, width: int, ratio: int) -> Parts:
    name = module.partition(".")[2]
    outputs = width * (2 if ratio == OVERLAPPING else 1)
    matrices = tuple(
        Matrix(f"{name}.{part}", f"{module}.{part}", hidden, outputs, "replicated", quantizable=False)
        for part in ("wkv", "wgate")
    )
    return Parts(matrices, (Vector(ratio * outputs, bits=32), Vector(width)))
