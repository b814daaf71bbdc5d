"""Pipeline stages."""

from autoadapter.artifacts import ModelProfile
from autoadapter.plan.legality.layout import Layout, Refusal

SOURCE = "vLLM 0.32 distributed/utils.py get_pp_indices: a stage would have no layer"


def stages(profile: ModelProfile, layout: Layout) -> Refusal | None:
    """No more stages than layers."""
    layers = profile.attention.num_layers
    if layout.pipeline <= layers:
        return None
    return Refusal(f"{layout.pipeline} pipeline stages for {layers} layers", SOURCE, f"at most {layers} stages")
