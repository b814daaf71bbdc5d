"""Which layouts vLLM accepts, and why it refuses the others.

Each rule is a function in its own file, names the line of vLLM that enforces it, and holds for one kind of size.
"""

from autoadapter.plan.legality.blocks import block_refusal
from autoadapter.plan.legality.context_parallel import decode_context_refusal
from autoadapter.plan.legality.experts import expert_split_refusal
from autoadapter.plan.legality.layout import Layout
from autoadapter.plan.legality.layouts import MOST_TENSOR_PARALLEL, layouts
from autoadapter.plan.legality.sizes import VOCAB_PADDING, dense_width
from autoadapter.plan.legality.verdict import (
    LAYOUT_RULES,
    TENSOR_RULES,
    LayoutVerdict,
    all_layouts,
    judge,
    tensor_refusal,
    tensor_sizes,
)

__all__ = [
    "LAYOUT_RULES",
    "MOST_TENSOR_PARALLEL",
    "TENSOR_RULES",
    "VOCAB_PADDING",
    "Layout",
    "LayoutVerdict",
    "all_layouts",
    "block_refusal",
    "decode_context_refusal",
    "dense_width",
    "expert_split_refusal",
    "judge",
    "layouts",
    "tensor_refusal",
    "tensor_sizes",
]
