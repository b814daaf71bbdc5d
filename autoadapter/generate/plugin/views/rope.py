"""Rotary embeddings in rendered code: what `get_rope` is given."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoadapter.artifacts.decoder import Attention, DecoderSpec, LatentAttention, LayerRule, Rope, Value
from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.views.choices import Choices, label_expression
from autoadapter.generate.plugin.views.lines import wrapped

ROPE_TYPES = ("default", "linear", "llama3", "yarn", "longrope", "proportional")
"""What `get_rope` computes as transformers does. `dynamic` is not: transformers follows the longest sequence so far."""


@dataclass(frozen=True)
class RopeView:
    """Arguments of `get_rope`, and how it is applied."""

    head_size: str
    max_position: str
    parameters: str
    """What to pass for `rope_parameters`."""
    statement: tuple[str, ...]
    """That makes it, where it is more than a path in the config."""
    is_neox_style: str
    trailing: bool
    negative: bool
    """Halves of queries and keys change places first: that turns the rotation around, and scores stay the same."""
    offset: str
    """Added to the positions: `""` or `" + 1"`."""
    condition: str | None
    """Only layers where this holds rotate; None: all."""


def rope_view(
    mixers: Mapping[int, Attention | LatentAttention], spec: DecoderSpec, choices: Choices, head_dim: int
) -> RopeView | None:
    """The rotary embedding of the mixers that one class renders.

    Args:
        mixers: by kind.
        spec: the decoder.
        choices: of the class.
        head_dim: of the heads that `get_rope` sees, on the clone.

    Raises:
        UnsupportedModelError: the kinds rotate in ways that one class cannot hold, or of a type that vLLM lacks.
    """
    ropes = {kind: mixer.rope for kind, mixer in mixers.items() if mixer.rope}
    if not ropes:
        return None
    first = next(iter(ropes.values()))
    if len({(rope.place, rope.position_offset, rope.negative) for rope in ropes.values()}) > 1:
        raise UnsupportedModelError("Kinds of layers differ in rope.place, rope.position_offset or rope.negative.")
    if first.negative and (first.style != "neox" or first.rotary_dim.number != head_dim):
        raise UnsupportedModelError("rope.negative is rendered only with rope.style=neox over the whole head.")
    trailing = first.place == "trailing" and first.rotary_dim.number != head_dim
    offset = f" + {first.position_offset}" if first.position_offset else ""
    condition = choices.condition(ropes, mixers) if len(ropes) < len(mixers) else None
    sizes = {kind: _rotary_dim(rope, head_dim) for kind, rope in ropes.items()}
    text = _by_label(ropes, spec) or choices.pick(
        {kind: _parameters(rope, spec, head_dim, trailing) for kind, rope in ropes.items()}
    )
    is_path = not text.startswith("{") and " if " not in text
    return RopeView(
        head_size=choices.pick(sizes) if trailing else "self.head_dim",
        max_position=max_positions(spec) + offset,
        parameters=text if is_path else "rope_parameters",
        statement=() if is_path else wrapped(f"rope_parameters = {text}", 12 if condition else 8),
        is_neox_style=choices.pick({kind: str(rope.style == "neox") for kind, rope in ropes.items()}),
        trailing=trailing,
        negative=first.negative,
        offset=offset,
        condition=condition,
    )


def max_positions(spec: DecoderSpec) -> str:
    """How many positions tables hold."""
    return expression(spec.max_positions) if spec.max_positions else "vllm_config.model_config.max_model_len"


def _rotary_dim(rope: Rope, head_dim: int) -> str:
    share = rope.rotary_dim.number / head_dim
    if rope.rotary_dim.key is not None:
        return expression(rope.rotary_dim)
    if share == 1:
        return "self.head_dim"
    whole = float(1 / share).is_integer()
    return f"self.head_dim // {int(1 / share)}" if whole else f"int(self.head_dim * {share})"


def _parameters(rope: Rope, spec: DecoderSpec, head_dim: int, trailing: bool) -> str:
    if rope.rope_type not in ROPE_TYPES:
        raise UnsupportedModelError(f"vLLM does not compute rope.rope_type={rope.rope_type} as transformers does.")
    stated = _stated(spec.config_seen, rope.parameters)
    items: dict[str, str] = {}
    if str(stated.get("rope_type", stated.get("type", "default"))) != rope.rope_type or not stated:
        items["rope_type"] = f'"{rope.rope_type}"'
    if rope.theta.key != f"{rope.parameters}.rope_theta" or "rope_theta" not in stated:
        items["rope_theta"] = expression(rope.theta)
    size = int(rope.rotary_dim.number) if trailing else head_dim
    assumed = stated.get("rope_dim") or int(size * stated.get("partial_rotary_factor", 1.0))
    if assumed != rope.rotary_dim.number:
        items["rope_dim"] = _rotary_dim(rope, head_dim)
    if rope.parameters and not items:
        return _path(rope.parameters)
    if not rope.parameters and rope.rope_type != "default":
        raise UnsupportedModelError(f"rope.rope_type={rope.rope_type} has no parameters in the config.")
    first = [f"**{_path(rope.parameters)}"] if rope.parameters else []
    return "{" + ", ".join([*first, *(f'"{key}": {text}' for key, text in items.items())]) + "}"


def _by_label(ropes: Mapping[int, Rope], spec: DecoderSpec) -> str | None:
    """`config.rope_parameters[config.layer_types[layer_idx]]`, where the config keeps a dict a label."""
    plain = {kind: _parameters(rope, spec, _size(rope), trailing=False) for kind, rope in ropes.items()}
    for number, rule in enumerate(spec.pattern.rules):
        labels = {(row[number], kind) for row, kind in spec.pattern.table if kind in ropes}
        if rule.rule != "list" or len({label for label, _ in labels}) < 2:
            continue
        bases = {_base(ropes[kind].parameters, label) for label, kind in labels}
        if len(bases) == 1 and (base := bases.pop()) and all(text.startswith("config") for text in plain.values()):
            return f"{_path(base)}[{_label(rule)}]"
    return None


def _size(rope: Rope) -> int:
    return int(rope.rotary_dim.number)


def _label(rule: LayerRule) -> str:
    return label_expression(rule)


def _base(path: str | None, label: str) -> str | None:
    return path.removesuffix(f".{label}") if path and path.endswith(f".{label}") else None


def _path(path: str | None) -> str:
    return expression(Value(number=0, key=path))


def _stated(config: dict[str, Any], path: str | None) -> dict[str, Any]:
    node: Any = config
    for part in path.split(".") if path else ():
        node = node.get(part, {}) if isinstance(node, dict) else {}
    return node if path and isinstance(node, dict) else {}
