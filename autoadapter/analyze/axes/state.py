"""Recurrent layers: Mamba, gated delta networks, KDA, short convolutions, and the state that a request holds."""

from autoadapter.analyze.layers import PARALLEL, STATE, layer_count, layer_kinds
from autoadapter.analyze.memory import served_dtype
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.analyze.structure.language import family_config
from autoadapter.analyze.structure.states import layer_state
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import StateTraits


def read_state(evidence: Evidence) -> Reading:
    """State traits; None without recurrent layers."""
    config = family_config(evidence)
    kinds = layer_kinds(config, layer_count(config))
    layers = sum(kind in (STATE, PARALLEL) for kind in kinds.kinds)
    if not layers:
        return Reading("state", None, {"": kinds.source})
    state = layer_state(config, served_dtype(evidence))
    if state is None:
        traits = StateTraits(kind=evidence.model_type or "unknown", num_layers=layers)
        return Reading("state", traits, {"num_layers": kinds.source}, (_unknown(evidence),))
    traits = StateTraits(kind=state.kind, num_layers=layers, bytes_per_request=layers * state.bytes)
    return Reading("state", traits, {"num_layers": kinds.source, "bytes_per_request": "computed from the config"})


def _unknown(evidence: Evidence) -> Finding:
    message = "The model has recurrent layers of a kind whose state AutoAdapter cannot size."
    return Finding(code="state.unknown", level=Level.WARNING, message=message, source=evidence.language.where)
