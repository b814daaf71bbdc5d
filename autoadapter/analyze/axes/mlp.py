"""The token-wise block: width, activation, gate, biases."""

from autoadapter.analyze.dense import WIDTH, dense_width, is_gated
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.artifacts.model_profile import MlpTraits

__all__ = ["WIDTH", "read_mlp"]
ACTIVATION = (
    "hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act", "afn", "activation",
    "ffn_config.ffn_act_fn.name",
)  # fmt: skip
DEFAULT_ACTIVATION = {"bloom": "gelu", "falcon": "gelu", "mpt": "gelu", "gpt2": "gelu_new"}
GATES = r"(gate_proj|gate_up_proj|gate_up|ffn_gate|w1|wi_0|gate_and_up|linear_v|dense_h_to_4h_gate)(_exps)?(\.|_|$)"
BIASES = (
    r"(mlp|feed_forward|ffn\w*)\.?.*(up_proj|down_proj|gate_proj|fc1|fc2|c_fc|c_proj|dense_\w+|fc_in|fc_out)\.bias$"
)
GGUF_BIASES = r"ffn_(up|down|gate)\.bias$"


def read_mlp(evidence: Evidence) -> Reading:
    """MLP traits; None for a model without one (pure Mamba)."""
    config = evidence.language
    width = dense_width(config)
    if width is None or evidence.model_type in ("mamba", "mamba2", "falcon_mamba"):
        return Reading("mlp", None, {"": config.source(*WIDTH)})
    stored = bool(evidence.checkpoint.tensors)
    has = evidence.checkpoint.has
    traits = MlpTraits(
        intermediate_size=width,
        activation=config.text(*ACTIVATION) or DEFAULT_ACTIVATION.get(evidence.model_type, "silu"),
        gated=has(GATES) if stored else is_gated(config),
        bias=has(BIASES) or has(GGUF_BIASES) if stored else bool(config.flag("mlp_bias", "use_bias")),
    )
    names = "tensor names" if stored else config.source("model_type")
    sources = {
        "intermediate_size": config.source(*WIDTH),
        "activation": config.source(*ACTIVATION),
        "gated": names,
        "bias": "tensor names" if stored else config.source("mlp_bias", "use_bias"),
    }
    return Reading("mlp", traits, sources)
