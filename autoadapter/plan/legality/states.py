"""Recurrent layers against tensor parallelism."""

from autoadapter.artifacts import ModelProfile
from autoadapter.plan.legality.layout import Refusal

GROUPS_SOURCE = "vLLM 0.32 layers/mamba/mamba_mixer2.py: n_groups % TP == 0 or n_groups == 1"
STATE_SOURCE = "vLLM 0.32 layers/mamba/mamba_utils.py: divide() of convolution channels and heads"


def state_groups(profile: ModelProfile, tensor: int) -> Refusal | None:
    """The groups of a Mamba-2 layer must be divisible by TP, unless there is only one, which is repeated."""
    for group in profile.structure.groups:
        for state in group.states:
            if state.groups > 1 and state.groups % tensor:
                reason = f"{state.groups} groups of the recurrent layers cannot be divided by {tensor}"
                return Refusal(reason, GROUPS_SOURCE, f"take a size that divides {state.groups}")
    return None


def state_elements(profile: ModelProfile, tensor: int) -> Refusal | None:
    """Convolution channels and state heads must be divisible by TP; a single group's share is extended to fit."""
    for group in profile.structure.groups:
        for state in group.states:
            if state.elements % tensor:
                reason = f"the {state.name} state of {state.elements} elements cannot be divided by {tensor}"
                return Refusal(reason, STATE_SOURCE)
    return None
