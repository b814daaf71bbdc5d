"""Mixtures of experts in rendered code."""

from dataclasses import dataclass
from typing import Self

from autoadapter.artifacts.decoder import DecoderSpec, Mlp, Moe, Value
from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin.api import api
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.loading import LoadingView
from autoadapter.generate.plugin.views.attention import LAYERS
from autoadapter.generate.plugin.views.mlp import MlpView
from autoadapter.generate.plugin.views.norms import NormClass, norm_use
from autoadapter.generate.plugin.views.routing import RoutingView

ACTIVATIONS = {
    "silu": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu2": "relu2",
}
OAI_LIMIT = 7.0
"""The clamp that vLLM's `swigluoai` kernels have built in."""


@dataclass(frozen=True)
class SharedView:
    """The experts that every token uses."""

    class_name: str
    base: str
    """The class of their MLP; another than `class_name` where a gate weighs them."""
    intermediate_size: str | None
    """Passed to the class of the dense MLPs; None where they have one of their own."""

    @property
    def gated(self) -> bool:
        """Whether a gate weighs them."""
        return self.class_name != self.base


@dataclass(frozen=True)
class MoeView:
    """One class of routed experts, of the kinds of layers that it serves."""

    class_name: str
    shared: SharedView | None
    hidden_size: str
    num_experts: str
    top_k: str
    intermediate_size: str
    layer: str
    """What vLLM calls its MoE layer."""
    options: tuple[tuple[str, str], ...]
    routing: RoutingView
    router_bias: bool
    router_norm: str | None
    router_softcap: str | None
    output_scale: str | None
    experts_class: str | None
    """A class of the module's own that holds the experts."""
    helpers: tuple[NormClass, ...]
    imports: frozenset[tuple[str, str]]
    choices: tuple[str, ...] = ()
    uses_kind_names: bool = False
    kind: str = "moe"
    takes_positions: bool = False

    @property
    def gate_inside(self) -> bool:
        """Whether vLLM's layer computes the router's logits itself."""
        return self.router_norm is None and self.router_softcap is None

    @classmethod
    def of(cls, moe: Moe, spec: DecoderSpec, class_name: str, *, shared: SharedView | None, vllm_version: str) -> Self:
        """The class for experts.

        Args:
            moe: what they compute.
            spec: the decoder.
            class_name: what it is called.
            shared: the experts beside them that every token uses.
            vllm_version: the release that is rendered for.

        Raises:
            UnsupportedModelError: vLLM's kernels do not compute such experts.
        """
        _refuse(moe)
        router, routing = moe.router, RoutingView.of(moe.router)
        norm = norm_use(router.input_norm) if router.input_norm else None
        layer = api("moe_layer", vllm_version)
        hidden = expression(spec.hidden_size)
        return cls(
            class_name=class_name,
            shared=shared,
            hidden_size=hidden,
            num_experts=expression(moe.num_experts),
            top_k=expression(router.top_k),
            intermediate_size=expression(moe.expert.intermediate_size),
            layer=layer,
            options=(*routing.options, *_options(moe, LoadingView.of(spec).expert_names)),
            routing=routing,
            router_bias=router.bias,
            router_norm=norm.made(hidden, expression(router.input_norm.eps)) if norm and router.input_norm else None,
            router_softcap=_text(router.softcap),
            output_scale=_text(moe.output_scale),
            experts_class=f"{class_name}RoutedExperts" if moe.activation_kind == "swigluoai" else None,
            helpers=(norm.helper,) if norm and norm.helper else (),
            imports=_imports(moe, layer) | (norm.imports if norm else frozenset()),
        )


def moe_views(
    moe: Moe, spec: DecoderSpec, class_name: str, vllm_version: str, mlp_class: str | None
) -> list[MlpView | MoeView]:
    """The class of routed experts, after that of the shared ones where they need their own.

    Args:
        moe: what they compute.
        spec: the decoder.
        class_name: what the class is called.
        vllm_version: the release that is rendered for.
        mlp_class: the class of dense MLPs of the shared experts' shape.

    Raises:
        UnsupportedModelError: vLLM's kernels do not compute such experts.
    """
    views: list[MlpView | MoeView] = []
    shared = None
    if moe.shared:
        own = class_name.removesuffix("MoE") + "SharedExperts"
        base = mlp_class or (f"{own}MLP" if moe.shared.gated else own)
        size = expression(moe.shared.mlp.intermediate_size) if mlp_class else None
        shared = SharedView(own if moe.shared.gated else base, base, size)
        if mlp_class is None:
            kinds = dict.fromkeys((0,), moe.shared.mlp)
            views.append(MlpView.of(kinds, spec, base, shared=True))
    views.append(MoeView.of(moe, spec, class_name, shared=shared, vllm_version=vllm_version))
    return views


def _text(value: Value | None) -> str | None:
    return expression(value) if value else None


def _refuse(moe: Moe) -> None:
    expert = moe.expert
    odd = {"inner_norm": expert.inner_norm, "gate_scale": expert.gate_scale, "down_scale": expert.down_scale}
    for name, value in odd.items():
        if value is not None:
            raise UnsupportedModelError(f"vLLM's MoE kernels compute no experts with {name}.")
    if expert.activation not in ACTIVATIONS or (expert.gated and expert.activation == "relu2"):
        gated = "gated " if expert.gated else ""
        raise UnsupportedModelError(
            f"vLLM's MoE kernels compute no {gated}experts with activation {expert.activation}."
        )
    if moe.activation_kind == "swigluoai" and (not expert.gate_limit or expert.gate_limit.number != OAI_LIMIT):
        raise UnsupportedModelError(f"vLLM's swigluoai kernels clamp at {OAI_LIMIT} only.")
    if moe.activation_kind == "plain" and expert.gate_limit:
        raise UnsupportedModelError("vLLM's MoE kernels compute no clamped experts but swigluoai.")


def _options(moe: Moe, names: tuple[str, str, str | None]) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    activation = _activation(moe.activation_kind, moe.expert)
    if activation != "silu":
        found.append(("activation", f'"{activation}"'))
    if moe.expert.up_bias or moe.expert.down_bias:
        found.append(("has_bias", "True"))
    if moe.weight_on_input:
        found.append(("apply_router_weight_on_input", "True"))
    if names != ("gate_proj", "down_proj", "up_proj"):
        gate, down, up = names
        last = "None" if up is None else f'"{up}"'
        found.append(("ckpt_names", f'("{gate}", "{down}", {last})'))
    return tuple(found)


def _activation(kind: str, expert: Mlp) -> str:
    if kind == "swigluoai":
        return "swigluoai"
    word = ACTIVATIONS[expert.activation]
    return word if expert.gated else f"{word}_no_mul"


def _imports(moe: Moe, layer: str) -> frozenset[tuple[str, str]]:
    fused = f"{LAYERS}.fused_moe"
    found = {("torch", ""), (fused, layer), (fused, "GateLinear")}
    if moe.shared and moe.shared.gated:
        found.add((f"{LAYERS}.linear", "ReplicatedLinear"))
    if moe.activation_kind == "swigluoai":
        found.add((fused, "RoutedExperts"))
    return frozenset(found)
