"""The files around the model: versions, names, the fingerprint, the config class."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hand_specs import gpt2_spec, key, llama_spec, qwen3_moe_spec

from autoadapter.artifacts.decoder import DecoderSpec, Router, Value
from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin import render_plugin
from autoadapter.generate.plugin.api import api, check_known, next_minor
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.views.routing import RoutingView


def rendered(spec: DecoderSpec, folder: Path, **more: Any) -> dict[str, str]:
    """Texts of the package, by file name."""
    config = {**spec.config_seen, **more}
    made = render_plugin(spec, folder, vllm_version="0.32.0", config=config)
    return {Path(name).name: (folder / name).read_text(encoding="utf-8") for name in made.files}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Value(number=3), "3"),
        (key(32, "head_dim"), "config.head_dim"),
        (key(0.1, "head_dim", form="inverse_square_root"), "config.head_dim**-0.5"),
        (key(128, "hidden_size", factor=4.0), "4 * config.hidden_size"),
        (key(8, "hidden_size", factor=0.25), "config.hidden_size // 4"),
        (key(0.125, "logits_scaling", form="reciprocal"), "1 / config.logits_scaling"),
        (key(1.0, "rope_parameters.rope_theta"), 'config.rope_parameters["rope_theta"]'),
        (key(1.0, "multipliers.0"), "config.multipliers[0]"),
        (key(4, "ffn_config:moe_top_k"), "config.ffn_config.moe_top_k"),
    ],
)
def test_numbers_as_a_person_writes_them(value: Value, text: str) -> None:
    assert expression(value) == text


def test_names_of_the_api_follow_the_release() -> None:
    assert api("moe_layer", "0.25.1") == "FusedMoE"
    assert api("moe_layer", "0.32.0") == "FusedMoEFactory"
    with pytest.raises(UnsupportedModelError, match="moe layer"):
        api("moe_layer", "0.28.0")
    with pytest.raises(UnsupportedModelError, match=r"0\.20\.0"):
        check_known("0.20.0")
    assert next_minor("0.32.1") == "0.33"


def test_fingerprint_refuses_another_architecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = llama_spec()
    text = rendered(spec, tmp_path / "plugin")["fingerprint.py"]
    stub = ModuleType("transformers")
    stub.PretrainedConfig = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", stub)
    scope: dict[str, Any] = {}
    exec(text, scope)
    same = SimpleNamespace(**{**spec.config_seen, "hidden_size": 4096, "eos_token_id": 7})
    scope["require_fitted"](same)
    other = SimpleNamespace(**{**spec.config_seen, "hidden_act": "gelu"})
    with pytest.raises(ValueError, match="hidden_act='silu'"):
        scope["require_fitted"](other)


def test_a_config_with_code_gets_a_class_of_the_plugin(tmp_path: Path) -> None:
    files = rendered(gpt2_spec(), tmp_path / "plugin", auto_map={"AutoConfig": "x.Y"}, n_ctx=64)
    assert "class GPT2Config(PretrainedConfig):" in files["configuration.py"]
    assert '"max_position_embeddings": "n_positions",' in files["configuration.py"]
    assert "n_ctx: int = 64," in files["configuration.py"]
    assert 'AutoConfig.register("gpt2", GPT2Config, exist_ok=True)' in files["__init__.py"]
    assert "configuration.py" not in rendered(gpt2_spec(), tmp_path / "plain")


def test_a_field_that_is_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="x=1"):
        rendered(llama_spec(), tmp_path / "plugin", auto_map={}, **{"x=1": 0})
    assert not (tmp_path / "plugin").exists()


def test_a_hostile_model_type_stays_a_literal(tmp_path: Path) -> None:
    spec = llama_spec().model_copy(update={"model_type": 'x"""\nimport os #'})
    files = rendered(spec, tmp_path / "plugin", auto_map={})
    for name, text in files.items():
        if name.endswith(".py"):
            compile(text, name, "exec")
    assert "\nimport os #" not in files["__init__.py"]


@pytest.mark.parametrize(
    ("router", "expected"),
    [
        (Router(score="softmax", top_k=Value(number=2)), {"renormalize": "False"}),
        (Router(score="softmax_topk", top_k=Value(number=2)), {"renormalize": "True"}),
        (
            Router(score="sigmoid", top_k=Value(number=2), correction=True, group_score="top2_sum"),
            {"renormalize": "False", "use_grouped_topk": "True", "num_expert_group": "1", "topk_group": "1",
             "scoring_func": '"sigmoid"', "e_score_correction_bias": "self.gate.e_score_correction_bias"},
        ),
        (
            Router(score="sqrt_softplus", top_k=Value(number=2), renormalize=True),
            {"renormalize": "True", "custom_routing_function": "self.route"},
        ),
    ],
)  # fmt: skip
def test_routing_by_options_where_vllm_knows_the_rule(router: Router, expected: dict[str, str]) -> None:
    assert dict(RoutingView.of(router).options) == expected


def test_experts_with_parts_that_no_kernel_has_are_refused(tmp_path: Path) -> None:
    spec = qwen3_moe_spec().with_value("kinds.0.branches.1.mixer.expert.activation", "relu")
    with pytest.raises(UnsupportedModelError, match="activation relu"):
        rendered(spec, tmp_path / "plugin")
