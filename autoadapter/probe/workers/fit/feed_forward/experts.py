"""The routed experts of a block: which products are theirs, and all experts' parameters, hit or not."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from autoadapter.probe.workers.fit.feed_forward.chains import Chain
from autoadapter.probe.workers.fit.feed_forward.mlp import MlpFit, groups, split, targets
from autoadapter.probe.workers.fit.feed_forward.products import Product
from autoadapter.probe.workers.fit.feed_forward.rows import reading
from autoadapter.probe.workers.fit.fitted import ParameterUse, UnexplainedError
from autoadapter.probe.workers.scene import Block, Scene


@dataclass(frozen=True, eq=False)
class Family:
    """One projection of all experts."""

    layout: Literal["leading", "rows", "named"]
    name: str
    """The parameter; of one tensor an expert, with `{}` where the expert's number stands."""
    members: dict[int, Product]
    """The products of the experts that were hit."""

    def parameter(self, expert: int) -> str:
        """The name of the parameter that holds an expert's weight."""
        return self.name.format(expert) if self.layout == "named" else self.name

    def bias(self, expert: int) -> str | None:
        """The name of the parameter that holds an expert's bias."""
        number, product = next(iter(self.members.items()))
        if product.bias is None or self.layout != "named":
            return product.bias
        return _numbered(product.bias, number, self.name.index("{")).format(expert)


@dataclass(frozen=True, eq=False)
class Experts:
    """The routed experts of a block."""

    count: int
    readers: tuple[Family, ...]
    down: Family

    @property
    def chains(self) -> dict[int, Chain]:
        """The experts that were hit, as MLPs."""
        return {
            expert: Chain(tuple(reader.members[expert] for reader in self.readers), product)
            for expert, product in self.down.members.items()
        }

    @property
    def products(self) -> set[int]:
        """`id` of every product of an expert."""
        return {id(p) for family in (*self.readers, self.down) for p in family.members.values()}


def find_experts(scene: Scene, block: Block, found: list[Product]) -> Experts | None:
    """The routed experts; None when the block has none.

    Raises:
        UnexplainedError: there are, but not of one or two reading products and a writing one each.
    """
    families = [*_stacked(found), *_named(scene, block, found)]
    if not families:
        return None
    x = block.x.value.reshape(-1, block.x.value.shape[-1])
    readers = [f for f in families if all(reading(x, p.x) for p in f.members.values() if p.x.any())]
    writers = [f for f in families if f not in readers]
    if len(writers) != 1 or len(readers) not in (1, 2):
        why = f"experts with {len(readers)} products of the input and {len(writers)} others"
        raise UnexplainedError(block.module, (), why)
    count = _count(scene, writers[0])
    if count < 2 or any(_count(scene, reader) < count for reader in readers):
        raise UnexplainedError(block.module, (), "the experts' projections are not equally many")
    return Experts(count, tuple(readers), writers[0])


def stacked(scene: Scene, experts: Experts, fit: MlpFit) -> dict[str, Tensor]:
    """All experts' parameters by their names in the spec, below `experts.`, in double precision."""
    result: dict[str, Tensor] = {}
    for family, names in _parts(experts, fit):
        result |= split(fit, _weights(scene, experts.count, family), tuple(f"experts.{n}.weight" for n in names))
        if family.bias(0) is not None:
            result |= split(fit, _biases(scene, experts.count, family), tuple(f"experts.{n}.bias" for n in names))
    return {name: tensor.detach().double() for name, tensor in result.items()}


def expert_uses(experts: Experts, fit: MlpFit) -> tuple[ParameterUse, ...]:
    """Which parameters hold the experts'."""
    found: list[ParameterUse] = []
    for family, names in _parts(experts, fit):
        transposed = next(iter(family.members.values())).transposed
        times = groups(fit) if len(names) == 2 else None
        extra = {} if times is None else {"groups": times}
        weights, biases = (tuple(f"experts.{n}.{end}" for n in names) for end in ("weight", "bias"))
        if family.layout == "named":
            for expert in range(experts.count):
                held = {**extra, "experts": "named", "expert": expert}
                found.append(ParameterUse(family.parameter(expert), weights, transposed=transposed, **held))
                if family.bias(expert):
                    found.append(ParameterUse(family.bias(expert), biases, **held))
            continue
        found.append(ParameterUse(family.name, weights, transposed=transposed, experts=family.layout, **extra))
        if family.bias(0):
            found.append(ParameterUse(family.bias(0), biases, experts="leading", **extra))
    return tuple(found)


def _parts(experts: Experts, fit: MlpFit) -> Iterator[tuple[Family, tuple[str, ...]]]:
    yield from zip(experts.readers, targets(fit.gating), strict=True)
    yield experts.down, ("down_proj",)


def _stacked(found: list[Product]) -> list[Family]:
    families: dict[str, dict[int, Product]] = {}
    layouts: dict[str, Literal["leading", "rows"]] = {}
    for product in found:
        if product.layout != "none" and product.expert is not None:
            families.setdefault(product.parameter, {})[product.expert] = product
            layouts[product.parameter] = product.layout
    return [Family(layouts[name], name, members) for name, members in families.items()]


def _named(scene: Scene, block: Block, found: list[Product]) -> list[Family]:
    """Families of products whose parameters differ in one number of a container inside the layer."""
    start = len(scene.layers[block.layer]) if scene.layers else 0
    families: dict[str, dict[int, Product]] = {}
    for product in found:
        for match in re.finditer(r"(?<=\.)\d+(?=\.)", product.parameter):
            if match.start() > start and product.layout == "none":
                name = product.parameter[: match.start()] + "{}" + product.parameter[match.end() :]
                families.setdefault(name, {})[int(match[0])] = product
    tokens = block.x.value.numel() // block.x.value.shape[-1]
    return [
        Family("named", name, members)
        for name, members in families.items()
        if len(members) > 1 and any(len(product.x) < tokens for product in members.values())
    ]


def _count(scene: Scene, family: Family) -> int:
    if family.layout == "named":
        known = scene.model.state_dict(keep_vars=True)
        count = 0
        while family.name.format(count) in known:
            count += 1
        return count
    full = scene.parameter(family.name)
    product = next(iter(family.members.values()))
    return len(full) if family.layout == "leading" else full.numel() // product.weight.numel()


def _weights(scene: Scene, count: int, family: Family) -> Tensor:
    """Of shape [experts, outputs, inputs]."""
    product = next(iter(family.members.values()))
    if family.layout == "named":
        whole = torch.stack([scene.parameter(family.parameter(expert)) for expert in range(count)])
    else:
        whole = scene.parameter(family.name)
        whole = whole[:count] if family.layout == "leading" else whole.unflatten(0, (count, -1))
    return whole.transpose(-1, -2) if product.transposed else whole


def _biases(scene: Scene, count: int, family: Family) -> Tensor:
    """Of shape [experts, outputs]."""
    if family.layout == "named":
        return torch.stack([scene.parameter(str(family.bias(expert))) for expert in range(count)])
    return scene.parameter(str(family.bias(0))).reshape(count, -1)


def _numbered(name: str, number: int, at: int) -> str:
    """The name with `{}` for the number that stands at a place."""
    return name[:at] + "{}" + name[at + len(str(number)) :]
