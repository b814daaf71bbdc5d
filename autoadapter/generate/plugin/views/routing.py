"""How a router is told to vLLM: by options where it knows the rule, else by a function of the module's own."""

from dataclasses import dataclass

from autoadapter.artifacts.decoder import Router
from autoadapter.generate.plugin.expressions import expression

SCORES = {
    "softmax": "gating_output.float().softmax(dim=-1)",
    "softmax_topk": "gating_output.float()",
    "sigmoid": "gating_output.float().sigmoid()",
    "sparsemixer": "gating_output.float()",
    "sqrt_softplus": "nn.functional.softplus(gating_output.float()).sqrt()",
}


@dataclass(frozen=True)
class RoutingView:
    """Options of vLLM's MoE layer, or a method that routes."""

    options: tuple[tuple[str, str], ...]
    scores: str | None
    """The scores, where the rule is the module's own method `route`; None where vLLM knows it."""
    correction: bool
    groups: tuple[str, str, str] | None
    """Of the method: number of groups, how many stay, how a group is scored."""
    jitter: str | None
    """Of the method, where it chooses one expert after the other (`sparsemixer`)."""
    softmax_after: bool
    """The method takes the softmax of the chosen scores."""

    @classmethod
    def of(cls, router: Router) -> "RoutingView":
        """The view of a spec's router."""
        own = not is_known(router)
        renormalize = router.renormalize or router.score == "softmax_topk"
        options = [("renormalize", str(renormalize))]
        if own:
            options.append(("custom_routing_function", "self.route"))
        elif is_grouped(router):
            options.append(("use_grouped_topk", "True"))
            options.append(("num_expert_group", expression(router.n_group) if router.n_group else "1"))
            options.append(("topk_group", expression(router.topk_group) if router.topk_group else "1"))
            options.append(("scoring_func", f'"{router.score}"'))
        if router.correction and not own:
            options.append(("e_score_correction_bias", "self.gate.e_score_correction_bias"))
        if router.scaling:
            options.append(("routed_scaling_factor", expression(router.scaling)))
            options.append(("apply_routed_scale_to_output", "True"))
        return cls(
            options=tuple(options),
            scores=SCORES[router.score] if own else None,
            correction=router.correction,
            groups=_groups(router) if own else None,
            jitter=expression(router.jitter) if router.jitter else None,
            softmax_after=router.score == "softmax_topk",
        )


def _groups(router: Router) -> tuple[str, str, str] | None:
    if not router.n_group or not router.topk_group:
        return None
    score = "topk(2, dim=-1).values.sum(dim=-1)" if router.group_score == "top2_sum" else "amax(dim=-1)"
    return expression(router.n_group), expression(router.topk_group), score


def is_grouped(router: Router) -> bool:
    """Whether vLLM's grouped top-k computes it, of one group where there are none: it is the one that corrects."""
    return router.n_group is not None or router.correction or router.score == "sigmoid"


def is_known(router: Router) -> bool:
    """Whether vLLM has the rule: its groups are scored by two experts exactly where scores are corrected."""
    if router.score in ("sqrt_softplus", "sparsemixer") or (router.score == "softmax_topk" and is_grouped(router)):
        return False
    return router.n_group is None or router.correction == (router.group_score == "top2_sum")
