"""Groups of a compressed-tensors config for which vLLM finds no scheme."""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from autoadapter.analyze.acceptance.rows import Scalar, Scheme, schemes
from autoadapter.analyze.config import Config
from autoadapter.artifacts import Finding, Level
from autoadapter.engine.versions import within

Arguments = Mapping[str, JsonValue]
NO_ORDERING_SINCE = "0.32.0"
"""First release read that refuses activation ordering by groups; llm-compressor's `static` and `weight` remain."""
ORDERED = ("group", "dynamic")
DEFAULTS: dict[str, JsonValue] = {"num_bits": 8, "type": "int", "symmetric": True, "dynamic": False}
"""compressed-tensors 0.15 `QuantizationArgs`."""
HINT = "Take a checkpoint in a format that vLLM serves, or let `autoadapter optimize` quantize the unquantized one."


def compressed_findings(config: Config, vllm_version: str) -> Iterator[Finding]:
    """Each group that vLLM would stop at, the first fault of each.

    Args:
        config: the quantization config.
        vllm_version: of the engine.
    """
    groups = config.get("config_groups")
    for name, group in (groups if isinstance(groups, dict) else {}).items():
        if isinstance(group, dict) and not _is_of_attention(group):
            problem = _problem(config, group, vllm_version)
            if problem is not None:
                source = f"{config.where}.config_groups.{name[:40]}"
                message = f"{source} {problem}"
                yield Finding(
                    code="quantization.scheme", level=Level.BLOCKER, message=message, hint=HINT, source=source
                )
    sparsity = config.child("sparsity_config")
    if sparsity is not None and sparsity.get("targets"):
        message = (
            f"{sparsity.where} names targets, and vLLM says: Sparsity support has been removed from compressed-tensors."
        )
        yield Finding(
            code="quantization.scheme", level=Level.BLOCKER, message=message, hint=HINT, source=sparsity.where
        )


def _is_of_attention(group: Arguments) -> bool:
    """VLLM skips groups whose one target is an attention class."""
    targets = group.get("targets")
    return isinstance(targets, list) and len(targets) == 1 and str(targets[0]).endswith("Attention")


def _problem(config: Config, group: Arguments, vllm_version: str) -> str | None:
    weights, inputs = group.get("weights"), group.get("input_activations")
    if not isinstance(weights, dict):
        return "states no weights; vLLM refuses it."
    order = weights.get("actorder")
    if (order is True or order in ORDERED) and within(vllm_version, NO_ORDERING_SINCE, None):
        return (
            f"has actorder {str(order).lower()}, and vLLM says: activation ordering by groups is no longer supported."
        )
    form = group.get("format") or config.get("format")
    whole = _whole(weights)
    activations = _whole(inputs) if isinstance(inputs, dict) and inputs else None
    if any(_fits(scheme, str(form or ""), whole, activations) for scheme in schemes()):
        return None
    with_inputs = f", activations {_told(activations)}" if activations else ""
    said = f"is weights {_told(whole)}{with_inputs}, format {form}"
    return f"{said}; vLLM says: No compressed-tensors compatible scheme was found."


def _whole(stated: Arguments) -> Arguments:
    """With what compressed-tensors fills in."""
    group = stated.get("group_size")
    strategy = "tensor" if group is None else "channel" if group == -1 else "group"
    given = {key: value for key, value in stated.items() if value is not None}
    return {**DEFAULTS, "strategy": strategy, **given}


def _fits(scheme: Scheme, form: str, weights: Arguments, inputs: Arguments | None) -> bool:
    if scheme.formats and form not in scheme.formats:
        return False
    if scheme.inputs == "none" and inputs is not None:
        return False
    wanted = scheme.inputs if isinstance(scheme.inputs, dict) else {}
    if wanted and inputs is None:
        return False
    return _has(weights, scheme.weights) and _has(inputs or {}, wanted)


def _has(stated: Arguments, wanted: Mapping[str, tuple[Scalar, ...]]) -> bool:
    return all(_value(stated, key) in [(type(one), one) for one in values] for key, values in wanted.items())


def _value(stated: Arguments, key: str) -> tuple[type, JsonValue]:
    value = stated.get(key)
    value = value.lower() if isinstance(value, str) else value
    value = True if key == "dynamic" and value == "local" else value
    return type(value), value


def _told(stated: Arguments) -> str:
    bits, kind, strategy = stated["num_bits"], stated["type"], stated["strategy"]
    groups = f" of {stated['group_size']}" if stated.get("group_size") is not None else ""
    signs = "symmetric" if stated["symmetric"] else "asymmetric"
    return f"{bits}-bit {kind} by {strategy}{groups}, {signs}"[:120]
