"""RoPE parameters that transformers or vLLM refuse: keys that a kind needs, kinds that nobody knows, factors too few.

Source: transformers 5.19 `modeling_rope_utils.py:validate_rope`; vLLM 0.32 `transformers_utils/config.py` and
`layers/rotary_embedding/__init__.py:get_rope`.
"""

from collections.abc import Iterator

from pydantic import JsonValue

from autoadapter.analyze import kv_cache
from autoadapter.analyze.acceptance.kinds import is_checked, shown
from autoadapter.analyze.axes.rope import rotary_fraction
from autoadapter.analyze.config import Config
from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.rope_parameters import rope_parameters
from autoadapter.artifacts import Finding, Level

NEEDS: dict[str, tuple[str, ...]] = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "telechat3-yarn": ("factor",),
    "ntk": ("factor",),
    "deepseek_yarn": ("factor", "original_max_position_embeddings"),
    "deepseek_llama_scaling": ("factor", "original_max_position_embeddings"),
    "longrope": ("short_factor", "long_factor"),
    "su": ("short_factor", "long_factor"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "mrope": ("mrope_section",),
    "bailing_mrope": ("mrope_section",),
}
"""Keys without which a kind is refused. `original_max_position_embeddings` is filled in where it is not here."""
OTHERS = {"default", "proportional", "axial", "mllama4", "openpangu", "xdrope"}
REWRITTEN = (
    "axk1", "bailing", "deepseek", "dots3", "glm5", "glm_moe_dsa", "kimi", "minimax_m3", "openpangu", "pangu",
    "param2moe", "sarvam", "hunyuan", "hy_v",
)  # fmt: skip
"""Families whose code in vLLM replaces the kind, whatever it is."""
NUMBERS = ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
LISTS = ("short_factor", "long_factor")


def rope_findings(evidence: Evidence) -> Iterator[Finding]:
    """What is refused in each object of RoPE parameters."""
    for parameters in rope_parameters(evidence.language):
        kind = parameters.get(parameters.found("rope_type", "type") or "")
        yield from _kind(evidence.language, parameters, kind)
        yield from _missing(parameters, kind)
        yield from _numbers(parameters, kind)
        if kind in ("longrope", "su"):
            yield from _lengths(evidence.language, parameters)


def _kind(config: Config, parameters: Config, kind: JsonValue) -> Iterator[Finding]:
    model_type = config.text("model_type") or ""
    if kind is None or kind in NEEDS or kind in OTHERS or model_type.startswith(REWRITTEN) or not is_checked(config):
        return
    source = parameters.source("rope_type", "type")
    message = f"{source} is {shown(kind)}, and vLLM says: Unknown RoPE scaling type."
    yield _refused(message, source, "Mend the type, or take config.json from where the weights came from.")


def _missing(parameters: Config, kind: JsonValue) -> Iterator[Finding]:
    missing = [key for key in NEEDS.get(str(kind), ()) if key not in parameters.data]
    if kind == "dynamic" and "alpha" in parameters.data and missing:
        message = f"{parameters.where} has alpha and no factor; transformers refuses type dynamic without factor."
        yield _refused(message, parameters.where, 'Add "factor": 1.0 beside alpha, as its authors do.')
    elif missing:
        message = (
            f"{parameters.where} is of type {kind} and lacks {' and '.join(missing)}: transformers and vLLM refuse it"
        )
        message += " (Missing required keys in `rope_parameters`)."
        yield _refused(message, parameters.where, f"Add {' and '.join(missing)} as the model's authors state them.")


def _numbers(parameters: Config, kind: JsonValue) -> Iterator[Finding]:
    if kind == "default":
        return
    for key in NUMBERS:
        value = parameters.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            message = f"{parameters.source(key)} is {shown(value)}, no number; vLLM cannot calculate with it."
            yield _refused(message, parameters.source(key), f"Mend {key} in the file.")


def _lengths(config: Config, parameters: Config) -> Iterator[Finding]:
    """One factor for each pair of rotated dimensions; vLLM multiplies the two lists."""
    head = config.integer("qk_rope_head_dim") or kv_cache.head_dim(config)
    pairs = int(head * rotary_fraction(config, parameters)) // 2
    for key in LISTS:
        value = parameters.get(key)
        if value is None:
            continue
        if not isinstance(value, list) or any(
            isinstance(one, bool) or not isinstance(one, int | float) for one in value
        ):
            message = f"{parameters.source(key)} is {shown(value)}, and not a list of numbers; vLLM stops there."
        elif len(value) != pairs and pairs:
            message = f"{parameters.source(key)} has {len(value)} factors and the model rotates {pairs} pairs of "
            message += f"dimensions (head size {head}); vLLM cannot multiply lists of two lengths."
        else:
            continue
        yield _refused(message, parameters.source(key), "Take config.json from where the weights came from.")


def _refused(message: str, source: str, hint: str) -> Finding:
    return Finding(code="rope.refused", level=Level.BLOCKER, message=message, hint=hint, source=source)
