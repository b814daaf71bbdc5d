"""The head in rendered code: transform, projection, logits."""

from dataclasses import dataclass

from autoadapter.artifacts.decoder import DecoderSpec, Head, Value
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.views.attention import LAYERS
from autoadapter.generate.plugin.views.lines import wrapped
from autoadapter.generate.plugin.views.norms import NormClass, norm_use


@dataclass(frozen=True)
class HeadView:
    """How the last hidden states become logits."""

    tied: bool
    bias: bool
    width: str
    is_projected: bool
    logits: tuple[str, ...]
    """Statement that makes the `LogitsProcessor`."""
    activation: str | None
    """Of the transform before the head; None without one."""
    dense_bias: bool
    norm: str | None
    helpers: tuple[NormClass, ...]
    imports: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, spec: DecoderSpec) -> "HeadView":
        """The view of a spec's head."""
        head, transform = spec.head, spec.head.transform
        found = {
            (f"{LAYERS}.vocab_parallel_embedding", "ParallelLMHead"),
            (f"{LAYERS}.logits_processor", "LogitsProcessor"),
        }
        hidden = expression(spec.hidden_size)
        norm: str | None = None
        helpers: tuple[NormClass, ...] = ()
        if transform:
            found.add((f"{LAYERS}.activation", "get_act_fn"))
            if transform.norm:
                groups = expression(transform.norm.groups) if transform.norm.groups else None
                use = norm_use(transform.norm, groups=groups)
                norm = use.made(hidden, expression(transform.norm.eps))
                helpers = (use.helper,) if use.helper else ()
                found |= use.imports
        if transform or head.projected:
            found.add((f"{LAYERS}.linear", "ReplicatedLinear"))
        width = spec.embedding.width if head.projected else None
        return cls(
            tied=head.tied,
            bias=head.bias,
            width=expression(width) if width else hidden,
            is_projected=head.projected,
            logits=wrapped(
                f"self.logits_processor = LogitsProcessor({expression(spec.vocab_size)}{_options(head)})", 12
            ),
            activation=transform.activation if transform else None,
            dense_bias=transform is not None and transform.bias,
            norm=norm,
            helpers=helpers,
            imports=frozenset(found),
        )


def _options(head: Head) -> str:
    """VLLM scales after the cap, the spec before it: cap·tanh(s·x/cap) is s·(cap/s)·tanh(x/(cap/s))."""
    scale, softcap = head.scale, head.softcap
    if scale and softcap:
        return f", scale={expression(scale)}, soft_cap={_factor(softcap)} / {_factor(scale)}"
    if scale:
        return f", scale={expression(scale)}"
    return f", soft_cap={expression(softcap)}" if softcap else ""


def _factor(value: Value) -> str:
    text = expression(value)
    return f"({text})" if " " in text else text
