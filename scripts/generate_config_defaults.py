"""Write `autoadapter/analyze/config_defaults.json`: the sizes that a config may leave to its class.

    python scripts/generate_config_defaults.py              # the vLLM and transformers beside this interpreter
    python scripts/generate_config_defaults.py --into FILE  # write another file

For every model type that takes text: the defaults of its configuration class (vLLM's own before transformers') for the
keys that the axes ask for, its other names for them, the model type of the language model within, and the shortest
period of its kinds of layers. What a class computes from other values is no default and is left out.
"""

import argparse
import contextlib
import dataclasses
import inspect
import io
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoadapter.analyze import dense, experts, feed_forward, kv_cache, layers
from autoadapter.analyze.axes import context, embedding, rope

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

TARGET = Path(__file__).parents[1] / "autoadapter" / "analyze" / "config_defaults.json"
ALIASES = (
    *layers.LAYERS, *kv_cache.HIDDEN, *kv_cache.HEADS, *kv_cache.KV_HEADS, *kv_cache.HEAD_DIM, *dense.WIDTH,
    *experts.EXPERTS, *experts.TOP_K, *experts.WIDTH, *experts.SHARED, *experts.SHARED_WIDTH, *context.KEYS,
    *embedding.VOCABULARY, *embedding.TIE, *feed_forward.EVERY,
)  # fmt: skip
PATTERNS = (
    "attn_type_list", "hybrid_layer_pattern", "attn_layer_indices", "full_attn_idxs",
    "hybrid_layer_ids", "full_attention_interval", "attn_layer_period", "attn_layer_offset", "layer_group_size",
    "block_types", "attention_chunk_size", "no_rope_layer_interval", "sliding_window", "sliding_window_size",
    "use_sliding_window", "sliding_window_pattern", "max_window_layers", "num_kv_shared_layers",
)  # fmt: skip
ATTENTION = (
    "multi_query", "new_decoder_architecture", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim",
    "q_lora_rank", "swa_num_attention_heads", "swa_num_key_value_heads", "swa_head_dim", "swa_v_head_dim",
    "global_head_dim", "num_global_key_value_heads", "index_head_dim", "index_n_heads", "index_topk_freq",
    "index_skip_topk_offset", "o_lora_rank", "o_groups", "attn_output_gate", "original_max_position_embeddings",
)  # fmt: skip
TOKEN_WISE = (
    "moe_layer_freq", "interleave_moe_layer_step", "moe_layer_frequency", "expert_layer_period",
    "expert_layer_offset", "first_k_dense_replace", "num_dense_layers", "moe_layer_start_index",
    "moe_layer_num_skipped", "moe_layer_end_index", "enable_moe_block", "moe_latent_size", "routed_expert_hidden_size",
    "block_ffn_dim_multiplier", "block_multiple_of", "expansion_ratio", "use_double_wide_mlp", "adapter_rank",
    "num_mem_blocks", "hc_mult", "altup_num_inputs", "laurel_rank", "hidden_size_per_layer_input",
    "vocab_size_per_layer_input", "word_embed_proj_dim", "embedding_size", "type_vocab_size",
)  # fmt: skip
STATES = (
    "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
    "linear_conv_kernel_dim", "linear_num_heads", "linear_head_dim", "conv_L_cache", "conv_dim", "lru_width",
    "conv1d_width", "mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "mamba_head_dim", "mamba_d_head",
    "mamba_headdim", "mamba_d_ssm", "n_groups", "mamba_n_groups", "mamba_ngroups", "ssm_state_size", "mamba_d_state",
    "state_size", "conv_kernel", "mamba_d_conv", "expand", "mamba_expand", "d_inner", "time_step_rank",
    "mamba_dt_rank", "mamba_ssm_cache_dtype", "mamba_ssm_dtype",
)  # fmt: skip
KEYS = tuple(dict.fromkeys((*ALIASES, *PATTERNS, *ATTENTION, *TOKEN_WISE, *STATES)))
WORDS = ("mamba_ssm_cache_dtype", "mamba_ssm_dtype", "sliding_window_pattern")
"""Keys whose values are texts; elsewhere a text (`auto`) stands for what the class computes."""
SCALED = (
    {
        **dict.fromkeys(kv_cache.HIDDEN, 4), **dict.fromkeys(kv_cache.HEADS, 2), **dict.fromkeys(layers.LAYERS, 2),
    },
    dict.fromkeys(
        (*kv_cache.KV_HEADS, *dense.WIDTH, *experts.WIDTH, *experts.SHARED, *experts.EXPERTS, *context.KEYS), 2
    ) | dict.fromkeys(embedding.VOCABULARY, 2),
)  # fmt: skip
"""What is multiplied, and by how much, to see which other values follow from it; once for each of them."""
SWITCHES = {"use_sliding_window", "max_window_layers"}
"""Keys that decide which layers slide, so that a list of a class's own would mislead."""
PRIVATE = ".text"
"""Behind the name of a whole: the row of its language model, where that one's class is its own."""
TEXT = (*embedding.VOCABULARY, "text")
LONGEST_PERIOD = 16

Row = dict[str, object]
REFUSED: dict[str, str] = {}
"""Classes that cannot be made without arguments, and why: of them only the stated fields are known."""


def main() -> int:
    """Generate the file and print its path."""
    parser = argparse.ArgumentParser(description="Collect what transformers' configuration classes leave unsaid.")
    parser.add_argument("--into", type=Path, default=TARGET, metavar="FILE", help="file to write")
    arguments = parser.parse_args()
    arguments.into.write_text(render(collect()), encoding="utf-8")
    print(arguments.into)
    for name, why in REFUSED.items():
        print(f"not made, fields only: {name}: {why.splitlines()[0]}", file=sys.stderr)
    return 0


def render(document: Mapping[str, object]) -> str:
    """The document as JSON with one line for each model type."""
    rows = document["types"]
    if not isinstance(rows, dict):
        raise TypeError("types is no object")
    lines = ",\n".join(f"{json.dumps(name)}:{_json(row)}" for name, row in rows.items())
    head = "".join(f"{json.dumps(key)}:{_json(value)},\n" for key, value in document.items() if key != "types")
    return f'{{\n{head}"types":{{\n{lines}\n}}}}\n'


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def collect() -> dict[str, object]:
    """All rows, with the version that they are of."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    logging.disable(logging.CRITICAL)
    import transformers
    import vllm
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES
    from vllm.transformers_utils.config import _CONFIG_REGISTRY

    classes = {name: CONFIG_MAPPING[name] for name in CONFIG_MAPPING_NAMES}
    classes |= {name: _CONFIG_REGISTRY[name] for name in _CONFIG_REGISTRY}
    rows = _rows(classes)
    return {
        "source": "CONFIG_MAPPING of transformers and _CONFIG_REGISTRY of vLLM",
        "transformers": transformers.__version__,
        "vllm": vllm.__version__.partition("+")[0],
        "types": {name: row for name, row in rows.items() if any(key in row or key in row["keys"] for key in TEXT)},
    }


def _rows(classes: Mapping[str, "type[PreTrainedConfig]"]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for name in sorted(classes):
        kind = classes[name]
        rows[name] = row = _row(kind)
        whole = _made(kind)
        inner = whole.get_text_config() if whole else None
        if whole is None or inner is None or inner is whole:
            continue
        own = classes.get(inner.model_type) is type(inner)
        row["text"] = inner.model_type if own else f"{name}{PRIVATE}"
        if not own:
            rows[str(row["text"])] = _row(type(inner)) | {"model_type": inner.model_type}
        row |= _overlays(kind, whole, inner)
    return rows


def _row(kind: "type[PreTrainedConfig]") -> Row:
    values = defaults(kind)
    row: Row = {"class": kind.__name__, "keys": values}
    row |= {"of": "vllm"} if kind.__module__.startswith("vllm") else {}
    aliases = {alias: key for alias, key in kind.attribute_map.items() if key in values and alias in KEYS}
    row |= {"aliases": aliases} if aliases else {}
    instance = _made(kind)
    return row if instance is None else row | _kinds_of_layers(kind, instance, values)


def _made(kind: "type[PreTrainedConfig]", **values: object) -> "PreTrainedConfig | None":
    """An instance; None where the class refuses to be made so, which is told if nothing was asked of it."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return kind(**values)
        except Exception as error:  # classes of two hundred authors refuse in as many ways
            if not values:
                REFUSED[kind.__name__] = f"{type(error).__name__}: {error}"
            return None


def defaults(kind: "type[PreTrainedConfig]") -> Row:
    """What a class says of the keys when a config is silent: fields, and constants that its code sets."""
    fields = {field.name: field.default for field in dataclasses.fields(kind)}
    fields |= {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}
    stated = {key: fields[key] for key in KEYS if key in fields and _plain(key, fields[key])}
    instances = [_made(kind)]
    for factors in SCALED:
        scaled = {key: factors[key] * value for key, value in stated.items() if key in factors and type(value) is int}
        depthless = {key: value for key, value in scaled.items() if key not in layers.LAYERS}
        instances += [_made(kind, **scaled) or _made(kind, **depthless)] if scaled else []
    found = dict(stated)
    for key in KEYS:
        computed = key in found or key in kind.attribute_map or isinstance(fields.get(key), str)
        values = [_inside(instance, key) for instance in instances if instance is not None]
        if not computed and len(values) > 1 and _plain(key, values[0]) and all(value == values[0] for value in values):
            found[key] = values[0]
    found |= _of_full_layers(instances[0], found) | _rotary_base(instances[0])
    return {key: found[key] for key in sorted(found)}


def _of_full_layers(instance: "PreTrainedConfig | None", found: Row) -> Row:
    """Geometry of the full layers, where the class gives them another than the sliding ones (Gemma-4)."""
    names = _kinds(instance) or []
    if not getattr(instance, "is_heterogeneous", False) or "full_attention" not in names:
        return {}
    layer = instance.per_layer_config[names.index("full_attention")]
    own = {"global_head_dim": "head_dim", "num_global_key_value_heads": "num_key_value_heads"}
    return {word: value for word, key in own.items() if (value := _inside(layer, key)) != found.get(key)}


def _rotary_base(instance: "PreTrainedConfig | None") -> Row:
    """The base of the full layers' rotary positions, where it is not everybody's."""
    said = getattr(instance, "rope_parameters", None)
    said = said.get("full_attention", said) if isinstance(said, dict) else {}
    theta = said.get("rope_theta")
    return {"rope_theta": float(theta)} if isinstance(theta, int | float) and theta != rope.DEFAULT_THETA else {}


def _inside(instance: "PreTrainedConfig | None", key: str) -> object:
    try:
        return getattr(instance, key, None)
    except RuntimeError:  # values that differ by layer have no common one
        return None


def _plain(key: str, value: object) -> bool:
    if isinstance(value, str):
        return key in WORDS
    if isinstance(value, list | tuple):
        return bool(value) and all(type(item) is int or (key == "block_types" and type(item) is str) for item in value)
    return isinstance(value, bool | int | float) and value >= 0


def _kinds_of_layers(kind: "type[PreTrainedConfig]", instance: "PreTrainedConfig", values: Row) -> Row:
    """The shortest period of the kinds of layers where they repeat at any depth, else all of them.

    Nothing where the keys tell them already.
    """
    names = _kinds(instance)
    counted = next((key for key in layers.LAYERS if isinstance(getattr(instance, key, None), int)), None)
    alike = names is not None and set(names) == {"full_attention"} and not values.get("sliding_window")
    if names is None or alike or counted is None or SWITCHES & set(values):
        return {}
    deeper = [_kinds(_made(kind, **{counted: count})) or [] for count in (len(names) + 1, 2 * len(names) + 3)]
    for length in range(1, min(LONGEST_PERIOD, len(names) // 2) + 1):
        unit = names[:length]
        if all(other and _repeats(other, unit) for other in (names, *deeper)):
            forced = any(other[-1] != unit[(len(other) - 1) % length] for other in (names, *deeper))
            return {"layer_types": unit} | ({"ends_full": True} if forced else {})
    return {"all_layer_types": names} if len(set(names)) > 1 else {}


def _kinds(instance: "PreTrainedConfig | None") -> list[str] | None:
    names = getattr(instance, "layer_types", None) or getattr(instance, "layers_block_type", None)
    return list(names) if isinstance(names, list | tuple) else None


def _repeats(names: Sequence[str], unit: Sequence[str]) -> bool:
    """Whether the names are the unit over and over; the last one may be forced to be full attention."""
    expected = [unit[index % len(unit)] for index in range(len(names))]
    return list(names[:-1]) == expected[:-1] and names[-1] in (expected[-1], "full_attention")


def _overlays(kind: "type[PreTrainedConfig]", whole: "PreTrainedConfig", inner: "PreTrainedConfig") -> Row:
    """Where a whole fills its language model otherwise than that one's class: when that is absent, and when given."""
    found = {"text_absent": _differences(inner)}
    key = next((name for name in kind.sub_configs if getattr(whole, name, None).__class__ is type(inner)), None)
    given = _made(kind, **{key: {"model_type": inner.model_type}}) if key else None
    if given is not None:
        found["text_given"] = _differences(given.get_text_config())
    return {name: values for name, values in found.items() if values}


def _differences(inner: "PreTrainedConfig") -> Row:
    """Values of a language model that its class would not have by itself, nor compute from the others."""
    plain = defaults(type(inner))
    found = {key: value for key in plain if (value := _inside(inner, key)) != plain[key] and _single(key, value)}
    computed = _made(type(inner), **found)
    for key in KEYS:
        value = _inside(inner, key)
        if key not in plain and key not in inner.attribute_map and _single(key, value):
            found |= {key: value} if value != _inside(computed, key) else {}
    return found


def _single(key: str, value: object) -> bool:
    return _plain(key, value) and not isinstance(value, list | tuple)


if __name__ == "__main__":
    sys.exit(main())
