"""Blocks with a state are explained by their parameters' shapes and by trying."""

from typing import Any

import pytest
import torch
from attention_alone import Separate
from blocks_alone import seen_alone
from recurrent_alone import STATE_CONFIG, DeltaRule, ShortConvolution, StateSpace

from autoadapter.artifacts.decoder import GatedDeltaNet, Mamba2, ShortConv
from autoadapter.probe.workers.fit.fitted import Fitted, UnexplainedError
from autoadapter.probe.workers.fit.recurrent import fit_recurrent


def fitted(module: torch.nn.Module, **config: Any) -> Fitted[Any]:
    return fit_recurrent(*seen_alone(module, **{**STATE_CONFIG, **config}))


def test_a_gated_short_convolution() -> None:
    found = fitted(ShortConvolution(), conv_L_cache=3)
    assert isinstance(found.value, ShortConv)
    assert (found.value.kernel.key, found.value.bias) == ("conv_L_cache", False)
    assert found.uses[0].targets == ("in_proj.weight",)


@pytest.mark.parametrize(("before", "grouped"), [(False, False), (False, True), (True, True)])
def test_mamba2_and_its_gated_norm(before: bool, grouped: bool) -> None:
    found = fitted(StateSpace(before=before, grouped=grouped))
    spec = found.value
    assert isinstance(spec, Mamba2)
    assert spec.norm is not None
    assert (spec.num_heads.key, spec.n_groups.key, spec.state_size.key) == ("mamba_num_heads", "n_groups", "state_size")
    assert (spec.norm_before_gate, spec.norm.groups is not None) == (before, grouped)
    assert {(use.parameter, use.targets) for use in found.uses} >= {
        ("z.0.q.f", ("A_log",)),
        ("z.0.q.e", ("D",)),
        ("z.0.q.d", ("dt_bias",)),
    }


def test_the_delta_rule_with_products_by_key_head() -> None:
    found = fitted(DeltaRule())
    spec = found.value
    assert isinstance(spec, GatedDeltaNet)
    assert (spec.num_k_heads.key, spec.head_v_dim.key) == ("linear_num_key_heads", "linear_value_head_dim")
    assert spec.layout == "per_k_head"
    packed = {use.targets: (use.groups.number, use.groups.key) for use in found.uses if len(use.targets) > 1}
    assert packed == {
        ("in_proj_qkv.weight", "in_proj_z.weight"): (2, "linear_num_key_heads"),
        ("in_proj_b.weight", "in_proj_a.weight"): (2, "linear_num_key_heads"),
    }


def test_what_has_no_state_is_refused() -> None:
    with pytest.raises(UnexplainedError, match="no recurrent block"):
        fitted(Separate())
