"""A mixture of experts is recognised by what it computes: experts, router, shared experts."""

from typing import Any

import blocks_alone as blocks
import torch

from autoadapter.artifacts.decoder import Moe
from autoadapter.probe.workers.fit.feed_forward import fit_feed_forward
from autoadapter.probe.workers.fit.fitted import Fitted


def fitted(module: torch.nn.Module, **config: Any) -> Fitted[Moe]:
    """The module as a mixture; every choice better than its alternative."""
    result = fit_feed_forward(*blocks.seen_alone(module, **config))
    assert isinstance(result.value, Moe), result.value
    assert result.error < 1e-5
    for entry in result.evidence:
        assert entry.runner_up_error is not None
        assert entry.runner_up_error > 100 * entry.max_error, entry
    return result


def test_experts_that_are_modules() -> None:
    result = fitted(blocks.NamedExperts())
    moe = result.value
    assert (moe.num_experts.key, moe.router.top_k.key) == ("num_experts", "num_experts_per_tok")
    assert (moe.router.score, moe.router.renormalize, moe.router.scaling) == ("softmax", True, None)
    gates = [use for use in result.uses if use.targets == ("experts.gate_proj.weight",)]
    assert [(use.experts, use.expert) for use in gates] == [("named", expert) for expert in range(blocks.EXPERTS)]
    assert [use.parameter for use in gates] == [f"z.0.q.e.{expert}.b.weight" for expert in range(blocks.EXPERTS)]


def test_experts_that_no_token_chose_are_found_by_their_siblings() -> None:
    module = blocks.NamedExperts()
    module.e.extend([blocks.Gated(swapped=True) for _ in range(30)])
    module.r = torch.nn.Linear(blocks.HIDDEN, 36, bias=False)
    result = fitted(module, num_experts=36, intermediate_size=blocks.INNER)
    assert result.value.num_experts.number == 36
    assert len([use for use in result.uses if use.targets == ("experts.down_proj.weight",)]) == 36


def test_gate_of_shared_experts() -> None:
    result = fitted(blocks.NamedExperts(shared=True))
    assert result.value.shared is not None
    assert result.value.shared.gated
    assert any(use.targets == ("shared.gate.weight",) for use in result.uses)


def test_corrected_and_grouped_choice() -> None:
    result = fitted(blocks.StackedExperts(), n_group=3, topk_group=2)
    router = result.value.router
    assert (router.score, router.renormalize, router.correction) == ("sigmoid", False, True)
    assert (router.n_group, router.topk_group) != (None, None)
    assert router.group_score == "top2_sum"
    assert router.scaling is not None
    assert (router.scaling.number, router.scaling.key) == (2.5, "routed_scaling_factor")
    fused = next(use for use in result.uses if use.parameter == "z.0.q.a")
    assert (fused.experts, fused.transposed) == ("leading", True)
    assert fused.targets == ("experts.gate_proj.weight", "experts.up_proj.weight")
    assert result.value.expert.up_bias
    assert not result.value.expert.down_bias


def test_plain_choice_has_no_correction_and_no_groups() -> None:
    router = fitted(blocks.StackedExperts(corrected=False, groups=1, scale=1.0)).value.router
    assert (router.correction, router.n_group, router.scaling) == (False, None, None)


def test_mean_of_routed_and_shared_experts() -> None:
    moe = fitted(blocks.StackedExperts(average=True, scale=1.0)).value
    assert moe.output_scale is not None
    assert moe.output_scale.number == 0.5
    assert moe.router.scaling is None


def test_one_expert_after_the_other() -> None:
    result = fit_feed_forward(*blocks.seen_alone(blocks.SparselyMixed(), router_jitter_noise=0.01))
    assert isinstance(result.value, Moe), result.value
    router = result.value.router
    assert router.score == "sparsemixer"
    assert router.jitter is not None
    assert (router.jitter.number, router.jitter.key) == (0.01, "router_jitter_noise")
