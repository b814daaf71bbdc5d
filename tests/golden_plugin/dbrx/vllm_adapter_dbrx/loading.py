"""Loads a checkpoint so that no tensor of it is left over and no parameter of the model is left empty."""

from collections.abc import Iterable, Iterator

import torch
from torch import nn
from vllm.model_executor.layers.fused_moe import MoERunner
from vllm.model_executor.layers.linear import MergedColumnParallelLinear, QKVParallelLinear
from vllm.model_executor.models.utils import AutoWeightsLoader, is_pp_missing_parameter

Part = tuple[str, str | int | None]


def load_all(model: nn.Module, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
    """Load a checkpoint by the model's `hf_to_vllm_mapper`.

    Returns:
        The names of the parameters that were filled.

    Raises:
        ValueError: a tensor has no parameter, or a parameter got no tensor.
    """
    known = dict(model.named_parameters(remove_duplicate=False))
    seen: set[Part] = set()

    def noted() -> Iterator[tuple[str, torch.Tensor]]:
        for name, weight in model.hf_to_vllm_mapper.apply(weights):
            # AutoWeightsLoader refuses what has no parameter, but drops biases without a word.
            if name.endswith(".bias") and model.quant_config is None and not has_place(name):
                raise ValueError(f"The checkpoint has a bias that the model does not use: {name}")
            seen.add((name, getattr(weight, "shard_id", None)))
            yield name, weight

    def has_place(name: str) -> bool:
        return name in known or ".experts." in name or is_pp_missing_parameter(name, model)

    loaded = AutoWeightsLoader(model).load_weights(noted())
    whole = {name for name, shard in seen if shard is None}
    missing = [name for name, shard in expected(model) if name not in whole and (name, shard) not in seen]
    if missing:
        raise ValueError(f"The checkpoint lacks tensors for {len(missing)} parts of the model, first {missing[0]}")
    return loaded


def expected(model: nn.Module) -> Iterator[Part]:
    """What a checkpoint has to bring: parameters, with the part where several tensors make one."""
    found: set[int] = set()
    for path, module in model.named_modules():
        if model.quant_config is not None and hasattr(module, "quant_method"):
            continue  # its tensors are the quantization method's own
        if isinstance(module, MoERunner):
            yield from ((f"{path}.{name}", None) for name in expert_tensors(module))
        if ".routed_experts" in path:
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in found:
                continue  # tied to an earlier one
            found.add(id(parameter))
            yield from ((f"{path}.{name}", shard) for shard in shards(module))


def shards(module: nn.Module) -> Iterable[str | int | None]:
    """The parts that a layer's parameters are put together from."""
    if isinstance(module, QKVParallelLinear):
        return ("q", "k", "v")
    if isinstance(module, MergedColumnParallelLinear):
        return range(len(module.output_sizes))
    return (None,)


def expert_tensors(runner: MoERunner) -> Iterator[str]:
    """Names of the tensors of all experts that this rank holds."""
    experts = runner.routed_experts
    if experts.quant_config is not None:
        return
    names = (experts.ckpt_gate_proj_name, experts.ckpt_down_proj_name, experts.ckpt_up_proj_name)
    ends = ("weight", "bias") if experts.moe_config.has_bias else ("weight",)
    for expert in range(experts.moe_config.num_logical_experts):
        if runner._map_global_expert_id_to_local_expert_id(expert) != -1:
            yield from (f"{expert}.{name}.{end}" for name in names if name for end in ends)
