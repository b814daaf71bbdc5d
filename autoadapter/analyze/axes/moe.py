"""Mixture of experts: how many, how many at a time, how wide, which layers stay dense."""

from autoadapter.analyze.config import Config
from autoadapter.analyze.experts import EXPERTS, SHARED, SHARED_WIDTH, TOP_K, WIDTH, expert_count
from autoadapter.analyze.feed_forward import feed_forward_kinds
from autoadapter.analyze.layers import layer_count
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import MoeTraits

__all__ = ["EXPERTS", "WIDTH", "expert_count", "read_moe"]
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
        return Reading("moe", None, {"": config.stated.source(*EXPERTS)})
    top_k = config.integer(*TOP_K)
    scoring, scored_by = _scoring(evidence)
    traits = MoeTraits(
        num_experts=experts,
        num_experts_per_tok=top_k or 1,
        moe_intermediate_size=config.integer(*WIDTH) or 0,
        num_shared_experts=_shared(config),
        num_dense_layers=feed_forward_kinds(config, layer_count(config)).count("dense"),
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


def _shared(config: Config) -> int:
    stated = config.integer(*SHARED)
    if stated is not None:
        return stated
    return 1 if config.integer(*SHARED_WIDTH) else 0


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
