"""Fits gated short convolutions."""

from collections.abc import Iterator
from itertools import permutations

from autoadapter.artifacts.decoder import ShortConv
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.recurrent.choosing import Candidate, choose
from autoadapter.probe.workers.fit.recurrent.roles import convolution, parameter, projections
from autoadapter.probe.workers.scene import Block, Scene

KERNEL = ("conv_L_cache", "conv_kernel", "conv_kernel_size")


def fit_short_conv(scene: Scene, block: Block) -> Fitted[ShortConv]:
    """The gated short convolution that reproduces `block`.

    Raises:
        UnexplainedError: it is none.
    """
    return choose(scene, block, _candidates(scene, block))


def _candidates(scene: Scene, block: Block) -> Iterator[Candidate]:
    conv, products = convolution(block), projections(block)
    if len(products) != 2:
        raise UnexplainedError(block.module, (), f"{len(products)} projections, a gated short convolution has two")
    kernel = scene.parameter(str(parameter(conv, 1, "weight"))).shape[-1]
    bias = parameter(conv, 2, "bias") is not None
    uses = []
    for first, last in permutations(products):
        for target, event in (("in_proj", first), ("conv", conv), ("out_proj", last)):
            for at, end in ((1, "weight"), (2, "bias")):
                name = parameter(event, at, end)
                uses += [] if name is None else [ParameterUse(name, (f"{target}.{end}",))]
        yield Candidate(ShortConv(kernel=bind(scene.config, kernel, KERNEL), bias=bias), tuple(uses))
        uses = []
