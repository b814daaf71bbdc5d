"""MLPs in rendered code."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoadapter.artifacts.decoder import DecoderSpec, Mlp, Value
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.views.attention import LAYERS
from autoadapter.generate.plugin.views.choices import Choices
from autoadapter.generate.plugin.views.lines import wrapped
from autoadapter.generate.plugin.views.norms import NormClass, norm_use

ACTIVATION = f"{LAYERS}.activation"
FUSED = {
    "silu": ("SiluAndMul", "SiluAndMul()"),
    "gelu": ("GeluAndMul", "GeluAndMul()"),
    "gelu_new": ("GeluAndMul", 'GeluAndMul(approximate="tanh")'),
    "gelu_pytorch_tanh": ("GeluAndMul", 'GeluAndMul(approximate="tanh")'),
}
"""Kernels that activate the gate and multiply; `gelu_new` is the tanh form, too."""


@dataclass(frozen=True)
class MlpView:
    """One MLP class, of the kinds of layers that it serves."""

    class_name: str
    choices: tuple[str, ...]
    hidden_size: str
    intermediate_size: str
    gated: bool
    activation: str
    """The module that activates."""
    fused: bool
    """It multiplies with the up branch, too."""
    up_bias: bool
    down_bias: bool
    inner_norm: tuple[str, ...]
    """Statement that makes it."""
    gate_scale: str | None
    down_scale: str | None
    gate_limit: str | None
    is_sized: bool
    """Its constructor takes the size, for shared experts of the same shape."""
    shared: bool
    """Beside routed experts, which add up its parts with theirs."""
    helpers: tuple[NormClass, ...]
    imports: frozenset[tuple[str, str]]
    uses_kind_names: bool
    kind: str = "mlp"
    takes_positions: bool = False

    @classmethod
    def of(
        cls,
        mixers: Mapping[int, Mlp],
        spec: DecoderSpec,
        class_name: str,
        *,
        shared: bool = False,
        is_sized: bool = False,
    ) -> "MlpView":
        """The class for the MLPs of some kinds, which have one shape.

        Args:
            mixers: by kind.
            spec: the decoder.
            class_name: what it is called.
            shared: they are shared experts.
            is_sized: shared experts use the class, too, with a size of their own.
        """
        first = next(iter(mixers.values()))
        choices = Choices(spec)

        def pick(name: str) -> str | None:
            values: dict[int, Value | None] = {kind: getattr(mixer, name) for kind, mixer in mixers.items()}
            return choices.pick_value(values) if any(values.values()) else None

        fused = first.gated and first.activation in FUSED and not first.gate_scale and not first.gate_limit
        norm = _inner_norm(mixers, choices)
        numbers: dict[str, Any] = {
            name: pick(name) for name in ("intermediate_size", "gate_scale", "down_scale", "gate_limit")
        }
        return cls(
            class_name=class_name,
            hidden_size=expression(spec.hidden_size),
            gated=first.gated,
            activation=FUSED[first.activation][1] if fused else _activation(first),
            fused=fused,
            up_bias=first.up_bias,
            down_bias=first.down_bias,
            inner_norm=norm[0],
            shared=shared,
            is_sized=is_sized,
            helpers=norm[1],
            imports=_imports(first, fused, bool(choices.lines)),
            choices=choices.lines,
            uses_kind_names=choices.uses_kind_names,
            **numbers,
        )


def _activation(mlp: Mlp) -> str:
    """The module: vLLM's xIELU keeps its parameters in bfloat16 unless told otherwise."""
    if mlp.activation == "xielu":
        return "XIELU(dtype=torch.get_default_dtype())"
    return f'get_act_fn("{mlp.activation}")'


def _inner_norm(mixers: Mapping[int, Mlp], choices: Choices) -> tuple[tuple[str, ...], tuple[NormClass, ...]]:
    norms = {kind: mixer.inner_norm for kind, mixer in mixers.items() if mixer.inner_norm}
    if not norms:
        return (), ()
    use = norm_use(next(iter(norms.values())), split="width")
    eps = choices.pick_value({kind: norm.eps for kind, norm in norms.items()})
    width = "self.down_proj.input_size_per_partition"
    made = use.made(width, eps, ", shard=get_tensor_model_parallel_rank()")
    return wrapped(f"self.inner_norm = {made}"), (use.helper,) if use.helper else ()


def _imports(mlp: Mlp, fused: bool, has_choices: bool) -> frozenset[tuple[str, str]]:
    linear = f"{LAYERS}.linear"
    own = "XIELU" if mlp.activation == "xielu" else "get_act_fn"
    found = {
        ("torch", ""),
        (linear, "RowParallelLinear"),
        (linear, "MergedColumnParallelLinear" if mlp.gated else "ColumnParallelLinear"),
        (ACTIVATION, FUSED[mlp.activation][0] if fused else own),
    }
    if mlp.inner_norm:
        found.add(("vllm.distributed", "get_tensor_model_parallel_rank"))
    if has_choices:
        found.add(("vllm.model_executor.models.utils", "extract_layer_index"))
    return frozenset(found)
