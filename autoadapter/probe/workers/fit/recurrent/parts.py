"""What blocks with a state are made of: products, a causal convolution, one number a head."""

from dataclasses import dataclass

import torch

from autoadapter.artifacts.decoder import Norm
from autoadapter.probe.workers.fit.attention.flow import PRODUCTS, columns, spanned, token_axis
from autoadapter.probe.workers.fit.attention.products import Product, product_of
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.fitted import ParameterUse, UnexplainedError
from autoadapter.probe.workers.scene import Block, Scene
from autoadapter.probe.workers.trace import Seen

EPS_KEYS = ("rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_eps", "mamba_norm_eps", "block_norm_eps")
LARGEST_EPS = 1e-2


@dataclass(frozen=True, eq=False)
class Parts:
    """Parameters of a block by what they do."""

    first: tuple[Product, ...]
    """Products with x, or with x times a number."""
    last: Product
    conv: str
    conv_bias: str | None
    conv_in: Seen
    """What is convolved, before padding."""
    vectors: tuple[str, ...]
    """The other parameters of one axis."""


def find_parts(scene: Scene, block: Block) -> Parts:
    """Sort the block's parameters.

    Raises:
        UnexplainedError: there is not one causal convolution over each channel, or not one last product.
    """
    products = [product for event in block.events if (product := _product(scene, event.ins, event.outs))]
    tokens = scene.ids.shape[1]
    convs = [event for event in block.events if event.name == "conv1d" and event.ins[1].parameter]
    flat = block.y.value.float().reshape(tokens, -1)
    first = tuple(product for product in products if _reads(product, block, tokens))
    last = [p for p in products if p not in first and torch.equal(columns(p.out.value, tokens), flat)]
    if len(convs) != 1 or len(last) != 1 or not first:
        raise UnexplainedError(block.module, (), "no recurrent block: not one convolution between two products")
    weight, biases = convs[0].ins[1], [seen.parameter for seen in convs[0].ins[2:] if seen.parameter]
    known = {weight.parameter, *biases, *(name for p in (*first, *last) for name in (p.weight, p.bias))}
    calls = spanned(scene.trace, block.x, block.y)  # with what is made of parameters alone
    names = dict.fromkeys(seen.parameter for event in calls for seen in event.ins if seen.parameter)
    vectors = tuple(name for name in names if name not in known and scene.parameter(name).ndim == 1)
    source = before_padding(scene, convs[0].ins[0])
    return Parts(first, last[0], weight.parameter or "", biases[0] if biases else None, source, vectors)


def _product(scene: Scene, ins: tuple[Seen, ...], outs: tuple[Seen, ...]) -> Product | None:
    found = (product_of(scene, seen, outs[0]) for seen in ins if not seen.parameter)
    return next((product for product in found if product), None)


def _reads(product: Product, block: Block, tokens: int) -> bool:
    source, x = columns(product.source.value, tokens), block.x.value.float().reshape(tokens, -1)
    return source is not None and source.shape == x.shape and scale_between(x, source) is not None


def scale_between(first: torch.Tensor, second: torch.Tensor) -> float | None:
    """The number that makes `second` of `first`, or None."""
    if torch.equal(first, second):
        return 1.0
    factor = float((first * second).sum() / (first * first).sum())
    return factor if float((first * factor - second).abs().max()) < 1e-6 * float(second.abs().max()) else None


def before_padding(scene: Scene, seen: Seen) -> Seen:
    """The tensor itself, or what it was padded or folded from, that has an axis of tokens."""
    tokens = scene.ids.shape[1]
    while token_axis(seen.value, tokens) is None:
        event = scene.trace.maker(seen)
        if event is None or not event.ins or event.name in PRODUCTS:
            raise UnexplainedError("", (), "a convolution over something else than the tokens")
        seen = event.ins[0]
    return seen


def rms_norms(scene: Scene, block: Block) -> list[Norm]:
    """A plain RMS norm under every epsilon that the block may have used, those that it wrote down first."""
    numbers = [
        float(leaf)
        for event in block.events
        if event.name in ("add", "rms_norm")
        for leaf in (*event.args, *event.kwargs.values())
        if isinstance(leaf, float) and 0 < leaf <= LARGEST_EPS
    ]
    return [Norm(kind="rms", eps=bind(scene.config, number, EPS_KEYS)) for number in dict.fromkeys(numbers)]


def plain_uses(parts: Parts, names: dict[str, str]) -> tuple[ParameterUse, ...]:
    """Convolution and last product, which all these blocks have; `names` are the vectors' in the spec."""
    uses = [ParameterUse(parts.conv, ("conv1d.weight",))]
    uses += [ParameterUse(parts.conv_bias, ("conv1d.bias",))] if parts.conv_bias else []
    uses.append(ParameterUse(parts.last.weight, ("out_proj.weight",), transposed=parts.last.transposed))
    uses += [ParameterUse(parts.last.bias, ("out_proj.bias",))] if parts.last.bias else []
    return (*uses, *(ParameterUse(parameter, (name,)) for parameter, name in names.items()))
