"""Routed experts: cut into slices, or dealt out whole."""

import math

from autoadapter.artifacts import ModelProfile
from autoadapter.engine.versions import within
from autoadapter.once import once_each
from autoadapter.plan.legality.blocks import group_of, has_blocks
from autoadapter.plan.legality.layout import Layout, Refusal

SLICE_SOURCE = "vLLM 0.32 fused_moe/config.py: intermediate_size % (TP × DP) == 0"
BLOCK_SOURCE = "vLLM 0.32 quantization/utils/fp8_utils.py validate_fp8_block_shape_moe"
GROUP_SOURCE = "vLLM 0.32 compressed_tensors_moe_wna16.py create_weights: groups cross TP shard boundaries"
DEAL_SOURCE = "vLLM 0.30 models/deepseek_v4/nvidia/model.py: n_physical_experts % ep_size == 0"
UNEVEN_SOURCE = "vLLM 0.32 fused_moe/expert_map_manager.py determine_expert_map"
HALVING = ("gptq", "awq", "auto_gptq", "auto_awq", "gptq_marlin", "awq_marlin", "moe_wna16")
"""Methods that fall back to `moe_wna16.py`, which halves groups until a slice holds whole ones."""
SMALLEST_GROUP = 32
"""Neither halved groups nor refined blocks get smaller (`moe_wna16.py`, `refine_fp8_moe_block_shape`)."""
UNGROUPED = {"bfloat16", "float16", "float32", "mxfp4"}
"""Experts that are stored so have no groups, or groups that vLLM pads, whatever the rest of the checkpoint has."""
REFINES_SINCE = "0.29.0"
"""First release with `fused_moe/oracle/fp8.py` `refine_fp8_moe_block_shape`."""
UNEVEN_SINCE = "0.31.0"
"""First release whose DeepSeek-V4 deals out unequal shares (but for the `deep_gemm_mega_moe` backend)."""
WHOLE = "expert parallelism keeps experts whole: --enable-expert-parallel"


def expert_slices(profile: ModelProfile, layout: Layout) -> Refusal | None:
    """Without expert parallelism each expert's width is divided over TP × DP ranks and must hold whole groups."""
    refusal = _slices(profile, 1 if layout.expert_parallel else layout.expert_ranks)
    return None if refusal is None or refined_block(profile, layout) is not None else refusal


def _slices(profile: ModelProfile, ranks: int) -> Refusal | None:
    moe = profile.moe
    if moe is None or moe.moe_intermediate_size == 0:
        return None
    width, group = moe.moe_intermediate_size, _group(profile)
    if width % ranks:
        return Refusal(f"the experts' intermediate size {width} cannot be divided by {ranks}", SLICE_SOURCE, WHOLE)
    if group is None or width // ranks % group == 0 or (ranks == 1 and not has_blocks(profile)):
        return None
    source = BLOCK_SOURCE if has_blocks(profile) else GROUP_SOURCE
    remedy = WHOLE if width % group == 0 else f"no layout helps: {width} is no multiple of {group}"
    return Refusal(f"its quantization groups of {group} straddle shards of {width // ranks}", source, remedy)


def _group(profile: ModelProfile) -> int | None:
    """Inputs of an expert that share a scale; None where the experts themselves have none that could straddle."""
    group, dtypes = group_of(profile), _expert_dtypes(profile)
    if group is None or profile.quantization is None or (dtypes and dtypes <= UNGROUPED):
        return None
    return min(group, SMALLEST_GROUP) if profile.quantization.method in HALVING else group


@once_each
def _expert_dtypes(profile: ModelProfile) -> set[str]:
    return {
        operator.dtype
        for layers in profile.structure.groups
        for operator in layers.operators
        if operator.split == "experts"
    }


def refined_block(profile: ModelProfile, layout: Layout) -> int | None:
    """Side of the blocks that vLLM refines straddling FP8 blocks to; None where it need not or cannot."""
    moe, quantization = profile.moe, profile.quantization
    if moe is None or quantization is None or quantization.method != "fp8" or layout.expert_parallel:
        return None
    group, shard = _group(profile), moe.moe_intermediate_size // layout.expert_ranks
    if group is None or shard % group == 0 or moe.moe_intermediate_size % layout.expert_ranks:
        return None
    refined = math.gcd(group, shard, profile.embedding.hidden_size)
    is_known = within(profile.verdict.vllm_version, REFINES_SINCE, None)
    return refined if is_known and refined >= SMALLEST_GROUP else None


def expert_shares(profile: ModelProfile, layout: Layout) -> Refusal | None:
    """No rank may be without experts, and older classes deal out equal numbers only."""
    moe, ranks = profile.moe, layout.expert_ranks
    if moe is None or not layout.expert_parallel:
        return None
    if moe.num_experts < ranks:
        return Refusal(f"{moe.num_experts} experts are fewer than {ranks} ranks", UNEVEN_SOURCE)
    is_strict = profile.architecture.startswith("DeepseekV4") and not within(
        profile.verdict.vllm_version, UNEVEN_SINCE, None
    )
    if not is_strict or moe.num_experts % ranks == 0:
        return None
    even = ", ".join(str(size) for size in (1, 2, 4, 8, 16) if moe.num_experts % size == 0)
    remedy = f"{even} ranks, or EPLB with num_redundant_experts {-moe.num_experts % ranks}"
    return Refusal(f"{moe.num_experts} experts cannot be dealt out over {ranks} ranks", DEAL_SOURCE, remedy)


def expert_notes(profile: ModelProfile, layout: Layout) -> tuple[str, ...]:
    """What to know of experts that vLLM takes, but not gladly."""
    moe, ranks, notes = profile.moe, layout.expert_ranks, []
    if moe is None:
        return ()
    block = refined_block(profile, layout)
    if block is not None:
        notes.append(
            f"FP8 blocks straddle shards of {moe.moe_intermediate_size // ranks}: since vLLM {REFINES_SINCE} they are "
            f"refined to {block}, which only Triton kernels take; {WHOLE}"
        )
    if layout.expert_parallel and moe.num_experts % ranks:
        most = -(-moe.num_experts // ranks)
        notes.append(
            f"{moe.num_experts} experts over {ranks} ranks: some hold {most}, others {most - 1}; EPLB would need "
            f"num_redundant_experts {-moe.num_experts % ranks}"
        )
    return tuple(notes)


def expert_split_refusal(profile: ModelProfile, ranks: int) -> str | None:
    """Why experts should not be cut into `ranks` slices (without expert parallelism), or None.

    Stricter than `expert_slices`: blocks that vLLM can refine count as straddling, since fast kernels refuse them.
    """
    refusal = _slices(profile, ranks)
    return refusal.reason if refusal else None
