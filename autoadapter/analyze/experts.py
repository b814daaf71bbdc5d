"""Experts by the many names that configs have for them."""

from autoadapter.analyze.config import Config

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
    "expert_ffn_hidden_size", "intermediate_size", "ffn_hidden_size", "ffn_dim",
)  # fmt: skip
SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
SHARED_WIDTH = (
    "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim",
    "shared_intermediate_size",
)  # fmt: skip


def expert_count(config: Config) -> tuple[int, str]:
    """Routed experts of a layer and the key that says so; a key that says 0 does not hide another."""
    said = config.stated if config.stated.found(*EXPERTS) or _is_dense_hybrid(config) else config
    counts = {key: said.integer(key) or 0 for key in EXPERTS}
    key = next((key for key in EXPERTS if counts[key]), config.found(*EXPERTS) or EXPERTS[0])
    return counts[key] or _experts_of_blocks(config), key


def _is_dense_hybrid(config: Config) -> bool:
    """A Nemotron-H whose stated layers have no experts, though its class has a default for them."""
    letters = config.text("hybrid_override_pattern")
    words = config.stated.texts("layers_block_type", "layer_types")
    return (letters is not None and "E" not in letters) or (words is not None and _has_blocks(words))


def _has_blocks(words: tuple[str, ...]) -> bool:
    """Whether a list of layers names dense blocks of their own and no experts."""
    return "mlp" in words and "moe" not in words


def _experts_of_blocks(config: Config) -> int:
    """Nemotron-H Puzzle: experts differ by block; the largest counts, as vLLM has it."""
    counts = (block.get("n_routed_experts") for block in config.objects("block_configs"))
    return max((count for count in counts if isinstance(count, int)), default=0)
