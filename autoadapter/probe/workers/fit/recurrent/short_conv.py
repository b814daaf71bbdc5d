"""LFM2's gated short convolution."""

from dataclasses import replace

from autoadapter.artifacts.decoder import ShortConv
from autoadapter.probe.workers.fit.attention.check import checked
from autoadapter.probe.workers.fit.attention.sizes import sized
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.recurrent.parts import find_parts, plain_uses
from autoadapter.probe.workers.scene import Block, Scene

KERNEL = ("conv_L_cache", "conv_kernel", "conv_kernel_size", "mamba_d_conv")


def fit_short_conv(scene: Scene, block: Block) -> Fitted[ShortConv]:
    """Explain y = out_proj(C · conv(B · x)).

    Raises:
        UnexplainedError: the block computes something else.
    """
    parts = find_parts(scene, block)
    channels, _, kernel = scene.parameter(parts.conv).shape
    biases = [name is not None for name in (parts.first[0].bias, parts.conv_bias, parts.last.bias)]
    if len(parts.first) != 1 or parts.first[0].outs != 3 * channels or parts.vectors or len(set(biases)) != 1:
        raise UnexplainedError(block.module, (), "no gated short convolution")
    size = sized(scene.config, kernel, KERNEL, ("conv", "kernel"), block)
    first = parts.first[0]
    uses = [ParameterUse(first.weight, ("in_proj.weight",), transposed=first.transposed)]
    uses += [ParameterUse(first.bias, ("in_proj.bias",))] if first.bias else []
    for use in plain_uses(parts, {}):
        uses.append(replace(use, targets=tuple(target.replace("conv1d", "conv") for target in use.targets)))
    return checked(scene, block, ShortConv(kernel=size, bias=biases[0]), tuple(uses), ())
