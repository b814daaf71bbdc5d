"""What holds the blocks of a decoder together: layers, residual stream, norms, embedding and head."""

from autoadapter.probe.workers.fit.skeleton.branches import layer_blocks
from autoadapter.probe.workers.fit.skeleton.ends import fit_ends
from autoadapter.probe.workers.fit.skeleton.parts import BranchSkeleton, Ends, LayerSkeleton
from autoadapter.probe.workers.fit.skeleton.watching import watch

__all__ = ["BranchSkeleton", "Ends", "LayerSkeleton", "fit_ends", "layer_blocks", "watch"]
