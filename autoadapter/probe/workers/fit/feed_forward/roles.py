"""What each product of a mixture of experts is for."""

from dataclasses import dataclass

from autoadapter.probe.workers.fit.feed_forward.chains import Chain
from autoadapter.probe.workers.fit.feed_forward.dense import dense_chains
from autoadapter.probe.workers.fit.feed_forward.experts import Experts
from autoadapter.probe.workers.fit.feed_forward.products import Product
from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.scene import Block, Scene


@dataclass(frozen=True, eq=False)
class Roles:
    """The products of a mixture."""

    experts: Experts
    router: Product
    shared: Chain | None
    gate: Product | None
    """Of the shared experts."""


def find_roles(scene: Scene, block: Block, found: list[Product], experts: Experts) -> Roles:
    """The router, and the shared experts where there are any.

    Args:
        scene: the reference.
        block: the mixture.
        found: its products with parameters.
        experts: the routed ones among them.

    Raises:
        UnexplainedError: a product is none of these.
    """
    rest = [product for product in found if id(product) not in experts.products]
    chains = [chain for chain in dense_chains(scene, rest) if chain.down.outputs == block.y.value.shape[-1]]
    if len(chains) > 1:
        raise UnexplainedError(block.module, (), f"{len(chains)} MLPs beside the experts")
    shared = chains[0] if chains else None
    used = {id(product) for chain in chains for product in (*chain.readers, chain.down)}
    rest = [product for product in rest if id(product) not in used]
    gates = [product for product in rest if product.outputs == 1 and experts.count > 1]
    routers = [product for product in rest if product.outputs == experts.count]
    if len(routers) != 1 or len(gates) > 1 or len(rest) != len(routers) + len(gates):
        shapes = [tuple(product.weight.shape) for product in rest]
        raise UnexplainedError(block.module, (), f"products of shapes {shapes} beside {experts.count} experts")
    return Roles(experts, routers[0], shared, gates[0] if gates else None)
