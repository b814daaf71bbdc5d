"""Mixture of experts: how many, how many at a time, how wide, which layers stay dense."""

from autoadapter.analyze.config import Config
from autoadapter.analyze.layers import layer_count
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import MoeTraits

EXPERTS = (
    "num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts", "ffn_config.moe_num_experts",
    "num_moe_experts",
)  # fmt: skip
TOP_K = (
    "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts", "moe_topk", "moe_top_k",
    "moe_k", "num_selected_experts", "ffn_config.moe_top_k",
)  # fmt: skip
WIDTH = (
    "moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size", "ffn_config.ffn_hidden_size",
    "intermediate_size", "ffn_hidden_size", "ffn_dim",
)  # fmt: skip
SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
SHARED_WIDTH = (
    "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim",
    "shared_intermediate_size",
)  # fmt: skip
SIGMOID = {
    "afmoe", "axk1", "axk2", "deepseek_v3", "deepseek_v32", "dots1", "exaone_moe", "glm4_moe", "glm4_moe_lite",
    "glm4v_moe", "glm4v_moe_text", "glm_moe_dsa", "hy_v3", "kimi_k2", "kimi_linear", "lfm2_moe", "llama4",
    "llama4_text", "mimo_v2_flash", "minimax_m2", "nemotron_h", "solar_open",
}  # fmt: skip
"""Families whose router takes a sigmoid whatever the config says of it: their modelling files in transformers 5.19."""
SCORING = ("scoring_func", "score_func", "score_function", "moe_router_activation_func", "moe_router_score_function")


def read_moe(evidence: Evidence) -> Reading:
    """MoE traits; None for a dense model (`num_experts` of 0, 1 or null is dense)."""
    config = evidence.language
    experts, key = expert_count(config)
    if experts <= 1:
        return Reading("moe", None, {"": config.source(*EXPERTS)})
    top_k = config.integer(*TOP_K)
    scoring, scored_by = _scoring(evidence)
    traits = MoeTraits(
        num_experts=experts,
        num_experts_per_tok=top_k or 1,
        moe_intermediate_size=config.integer(*WIDTH) or 0,
        num_shared_experts=_shared(config),
        num_dense_layers=_dense_layers(config),
        scoring=scoring,
        latent_size=config.integer("moe_latent_size", "routed_expert_hidden_size"),
    )
    sources = {
        "num_experts": config.source(key),
        "num_experts_per_tok": config.source(*TOP_K),
        "moe_intermediate_size": config.source(*WIDTH),
        "num_shared_experts": config.source(*SHARED, *SHARED_WIDTH),
        "scoring": scored_by,
    }
    return Reading("moe", traits, sources, () if top_k else (_no_top_k(config),))


def expert_count(config: Config) -> tuple[int, str]:
    """Routed experts of a layer and the key that says so; a key that says 0 does not hide another."""
    counts = {key: config.integer(key) or 0 for key in EXPERTS}
    key = next((key for key in EXPERTS if counts[key]), config.found(*EXPERTS) or EXPERTS[0])
    return counts[key] or _experts_of_blocks(config), key


def _experts_of_blocks(config: Config) -> int:
    """Nemotron-H Puzzle: experts differ by block; the largest counts, as vLLM has it."""
    counts = (block.get("n_routed_experts") for block in config.objects("block_configs"))
    return max((count for count in counts if isinstance(count, int)), default=0)


def _shared(config: Config) -> int:
    stated = config.integer(*SHARED)
    if stated is not None:
        return stated
    return 1 if config.integer(*SHARED_WIDTH) else 0


def _dense_layers(config: Config) -> int:
    layers = layer_count(config)
    kinds = config.texts("mlp_layer_types")
    if kinds:
        return sum(kind == "dense" for kind in kinds)
    flags = config.integers("moe_layer_freq")
    if flags:
        return sum(flag == 0 for flag in flags)
    step = config.integer("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval") or 1
    if step > 1:
        return layers - layers // step
    only_mlp = config.integers("mlp_only_layers")
    first = config.integer("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")
    return len(only_mlp) if only_mlp else first or 0


def _scoring(evidence: Evidence) -> tuple[str, str]:
    """What the config says, else what the family or a stored correction bias gives away, and where that is from."""
    config = evidence.language
    stated = config.text(*SCORING)
    if stated:
        return stated, config.source(*SCORING)
    if evidence.model_type in SIGMOID:
        return "sigmoid", f"{config.source('model_type')} ({evidence.model_type} routes by sigmoid)"
    if evidence.checkpoint.has(r"e_score_correction_bias$|exp_probs_b\.bias$"):
        return "sigmoid", "tensor names (a correction bias is stored)"
    return "softmax", f"{config.source(*SCORING)}; the default of most families"


def _no_top_k(config: Config) -> Finding:
    message = "The model has experts, and the config does not say how many a token uses; 1 is assumed."
    return Finding(code="moe.top-k", level=Level.WARNING, message=message, source=config.source(*EXPERTS))
