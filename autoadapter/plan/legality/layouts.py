"""The layouts that a plan chooses from."""

from autoadapter.artifacts import ModelProfile
from autoadapter.once import once_each
from autoadapter.plan.legality.blocks import block_refusal
from autoadapter.plan.legality.experts import expert_split_refusal
from autoadapter.plan.legality.layout import Layout
from autoadapter.plan.legality.verdict import judge, tensor_refusal

MOST_TENSOR_PARALLEL = 16
"""Above that tensor parallelism is not planned: it would span machines."""


@once_each
def layouts(
    profile: ModelProfile, devices: int, replicas: int | None = None
) -> tuple[tuple[Layout, ...], dict[int, str]]:
    """Legal layouts on up to `devices` devices, smallest tensor size first, and refused tensor sizes with reasons.

    Data parallelism is none or all that the devices allow, unless `replicas` fixes it. Only powers of two are listed
    as refused; other sizes are used where they are legal.
    """
    legal: list[Layout] = []
    refused: dict[int, str] = {}
    for tensor in range(1, min(devices, MOST_TENSOR_PARALLEL) + 1):
        reason = tensor_refusal(profile, tensor) or block_refusal(profile, tensor)
        if reason:
            if tensor & (tensor - 1) == 0:
                refused[tensor] = reason
            continue
        wanted = [Layout(tensor=tensor, data=data) for data in _data(devices // tensor, replicas)]
        wanted += [
            Layout(tensor=tensor, pipeline=stages)
            for stages in range(2, min(devices // tensor, profile.attention.num_layers) + 1)
        ]
        legal += [layout for plain in wanted if judge(profile, layout := _with_experts(profile, plain)).legal]
    return tuple(legal), refused


def _data(most: int, fixed: int | None) -> tuple[int, ...]:
    if fixed is not None:
        return (fixed,) if fixed <= most else ()
    return (1,) if most == 1 else (1, most)


def _with_experts(profile: ModelProfile, layout: Layout) -> Layout:
    """Experts stay whole wherever slices would be illegal or attention runs data-parallel."""
    ranks = layout.expert_ranks
    if profile.moe is None or ranks == 1:
        return layout
    whole = layout.data > 1 or expert_split_refusal(profile, ranks) is not None
    return Layout(layout.tensor, layout.pipeline, layout.data, expert_parallel=whole)
