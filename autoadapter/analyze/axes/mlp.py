"""The token-wise block: width, activation, gate, biases."""

from autoadapter.analyze.config import Config
from autoadapter.analyze.kv_cache import HIDDEN
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.artifacts.model_profile import MlpTraits

WIDTH = (
    "dense_intermediate_size", "intermediate_size_mlp", "intermediate_size", "block_ff_dim", "n_inner", "ffn_dim",
    "ffn_hidden_size", "ffn_config.ffn_hidden_size", "feed_forward_length",
)  # fmt: skip
ACTIVATION = (
    "hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act", "afn", "activation",
    "ffn_config.ffn_act_fn.name",
)  # fmt: skip
FOUR_TIMES = {"gpt2", "bloom", "gpt_neo", "gptj", "gpt_bigcode", "falcon", "mpt", "openai-gpt", "codegen"}
"""Families whose absent width means four times the hidden size."""
DEFAULT_ACTIVATION = {"bloom": "gelu", "falcon": "gelu", "mpt": "gelu", "gpt2": "gelu_new"}
NOT_GATED = FOUR_TIMES | {
    "opt", "gpt_neox", "phi", "starcoder2", "nemotron", "nemotron_h", "persimmon", "bert", "roberta", "xlm-roberta",
    "xglm", "biogpt", "arcee", "jais2",
}  # fmt: skip
"""Families with one up projection and no gate, for when there are no tensors to look at."""
GATES = r"(gate_proj|gate_up_proj|gate_up|ffn_gate|w1|wi_0|gate_and_up|linear_v|dense_h_to_4h_gate)(_exps)?(\.|_|$)"
BIASES = (
    r"(mlp|feed_forward|ffn\w*)\.?.*(up_proj|down_proj|gate_proj|fc1|fc2|c_fc|c_proj|dense_\w+|fc_in|fc_out)\.bias$"
)
GGUF_BIASES = r"ffn_(up|down|gate)\.bias$"


def read_mlp(evidence: Evidence) -> Reading:
    """MLP traits; None for a model without one (pure Mamba)."""
    config = evidence.language
    width = _width(config)
    if width is None or evidence.model_type in ("mamba", "mamba2", "falcon_mamba"):
        return Reading("mlp", None, {"": config.source(*WIDTH)})
    stored = bool(evidence.checkpoint.tensors)
    has = evidence.checkpoint.has
    traits = MlpTraits(
        intermediate_size=width,
        activation=config.text(*ACTIVATION) or DEFAULT_ACTIVATION.get(evidence.model_type, "silu"),
        gated=has(GATES) if stored else evidence.model_type not in NOT_GATED,
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


def _width(config: Config) -> int | None:
    stated = config.integer(*WIDTH)
    if stated is not None:
        return _adjusted(config, stated)
    hidden = config.integer(*HIDDEN)
    if hidden is None or config.text("model_type") not in FOUR_TIMES:
        return None
    return int(hidden * (config.number("expansion_ratio", "ffn_hidden_size_ratio") or 4))


def _adjusted(config: Config, stated: int) -> int:
    """LFM2 takes two thirds of its width and rounds up (transformers 5.19 `Lfm2MLP`), unless told not to."""
    if config.text("model_type") != "lfm2" or config.flag("block_auto_adjust_ff_dim") is False:
        return stated
    factor = config.number("block_ffn_dim_multiplier")
    multiple = config.integer("block_multiple_of") or 256
    width = int((1.0 if factor is None else factor) * int(2 * stated / 3))
    return -(-width // multiple) * multiple
