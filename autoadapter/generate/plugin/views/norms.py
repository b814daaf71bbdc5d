"""Norms in rendered code: vLLM's and torch's where they compute the same, else a small class of the module's own."""

from dataclasses import dataclass
from typing import Literal

from autoadapter.artifacts.decoder import Norm
from autoadapter.errors import UnsupportedModelError

Split = Literal["none", "width", "heads"]
LAYERNORM = "vllm.model_executor.layers.layernorm"
WORDS = {"rms": "RMSNorm", "layer": "LayerNorm", "l2": "L2Norm"}
WHAT = {
    "rms": "Root mean square normalization",
    "layer": "Layer normalization",
    "l2": "Division by the Euclidean length",
}
SPLITS = {
    "none": "",
    "width": " over a width that tensor parallelism splits: statistics are of all ranks",
    "heads": " of each head under a weight of its own, split with the heads",
}


@dataclass(frozen=True)
class NormClass:
    """A norm class that the module defines itself."""

    class_name: str
    kind: str
    weight: str
    bias: bool
    grouped: bool
    split: Split

    @property
    def words(self) -> str:
        """The docstring."""
        scale = {"plain": "", "one_plus": ", times 1 + weight", "none": ", without a weight"}[self.weight]
        parts = ", of equal parts of the width" if self.grouped else ""
        return WHAT[self.kind] + SPLITS[self.split] + parts + scale + (", plus a bias" if self.bias else "") + "."

    @property
    def initial(self) -> str:
        """The function of torch that fills a fresh weight."""
        return "zeros" if self.weight == "one_plus" else "ones"

    @property
    def imports(self) -> frozenset[tuple[str, str]]:
        """Names that the class uses."""
        found = {("torch", "")}
        if self.split != "none":
            found |= {
                ("vllm.model_executor.utils", "set_weight_attrs"),
                ("vllm.model_executor.model_loader.weight_utils", "default_weight_loader"),
                ("functools", "partial"),
            }
        if self.split == "width":
            found |= {
                ("vllm.distributed", "get_tensor_model_parallel_world_size"),
                ("vllm.distributed", "tensor_model_parallel_all_reduce"),
            }
        return frozenset(found)


@dataclass(frozen=True)
class NormUse:
    """How a norm is made: `RMSNorm(config.hidden_size, eps=config.rms_norm_eps)`."""

    class_name: str
    options: str
    imports: frozenset[tuple[str, str]] = frozenset()
    helper: NormClass | None = None

    def made(self, width: str, eps: str, more: str = "") -> str:
        """The constructor call."""
        return f"{self.class_name}({width}, eps={eps}{self.options}{more})"


def norm_use(norm: Norm, *, split: Split = "none", groups: str | None = None) -> NormUse:
    """The class for a norm and what to pass to it.

    Args:
        norm: what is computed.
        split: whether the weight lies over ranks: by the width that is normalised, or by heads that each are.
        groups: the expression of `norm.groups`.

    Raises:
        UnsupportedModelError: no class computes this norm over ranks.
    """
    if split == "none" and not norm.groups and (usual := _usual(norm)):
        return usual
    if split == "width" and (norm.kind == "l2" or norm.groups):
        raise UnsupportedModelError(
            f"A norm of kind {norm.kind} with groups={norm.groups} over a width that ranks share cannot be rendered."
        )
    name = WORDS[norm.kind]
    name = {"none": "", "width": "Sharded", "heads": "PerHead"}[split] + ("Grouped" if norm.groups else "") + name
    name += {"plain": "", "one_plus": "1P", "none": "NoWeight"}[norm.weight] + ("WithBias" if norm.bias else "")
    helper = NormClass(name, norm.kind, norm.weight, norm.bias, norm.groups is not None, split)
    return NormUse(name, f", groups={groups}" if norm.groups else "", helper=helper)


def _usual(norm: Norm) -> NormUse | None:
    if norm.kind == "rms" and not norm.bias:
        if norm.weight == "one_plus":
            return NormUse("GemmaRMSNorm", "", frozenset({(LAYERNORM, "GemmaRMSNorm")}))
        options = "" if norm.weight == "plain" else ", has_weight=False"
        return NormUse("RMSNorm", options, frozenset({(LAYERNORM, "RMSNorm")}))
    if norm.kind == "layer" and norm.weight == "plain":
        return NormUse("nn.LayerNorm", "" if norm.bias else ", bias=False")
    if norm.kind == "layer" and norm.weight == "none" and not norm.bias:
        return NormUse("nn.LayerNorm", ", elementwise_affine=False")
    return None


def takes_residual(norm: Norm | None) -> bool:
    """Whether vLLM's class for it adds a residual in the same kernel."""
    return norm is not None and norm.kind == "rms" and not norm.bias and norm.groups is None
