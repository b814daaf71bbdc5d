"""What a device needs beside weights and KV cache. Estimates, each with its provenance.

The formula was fitted to 34 public start-up logs (vLLM 0.19, H100, `max-num-seqs` 1024): the activation peak of a dense
model is taken as the sampler's work on logits, about 16 bytes × vocabulary × max-num-seqs, unless a forward pass of
`max-num-batched-tokens` is larger; sparse models add the two. The unit tests hold it against some of them; elsewhere it
is a guess.
"""

from dataclasses import dataclass

from autoadapter.artifacts import Hardware, ModelProfile
from autoadapter.plan.legality import Layout

GIB = 1024**3
SAMPLER_BYTES_PER_LOGIT = 16
NON_TORCH_ALONE = int(0.27 * GIB)
NON_TORCH_PARALLEL = int(2.21 * GIB)
"""NCCL and its buffers, from TP 2 on."""
GRAPHS_ALONE = int(1.39 * GIB)
GRAPHS_PARALLEL = int(1.92 * GIB)
"""Largest CUDA-graph estimates of those logs."""
CPU_PROCESSES = int(3.0 * GIB)
"""vLLM's three processes (API server, engine core, worker) without weights and KV cache.

Measured 1.8 GiB (proportional set size, vLLM 0.32 CPU, eager, 135M model); the rest is headroom for loading.
"""
LOG_SOURCE = "fitted to 34 public vLLM 0.19 start-up logs on H100; an estimate on other devices and versions"
CPU_SOURCE = "1.8 GiB measured on vLLM 0.32 CPU with a 135M model, and headroom; an estimate for other models"


@dataclass(frozen=True)
class Batch:
    """How much one engine takes on at once."""

    max_num_seqs: int
    max_num_batched_tokens: int
    graphs: bool
    """Whether CUDA graphs are captured (no `enforce-eager`)."""


@dataclass(frozen=True)
class Overhead:
    """An estimate and where it comes from."""

    total_bytes: int
    source: str


def overhead(profile: ModelProfile, hardware: Hardware, layout: Layout, batch: Batch) -> Overhead:
    """Bytes beside weights and KV cache on one device."""
    activation = activation_bytes(profile, layout, batch)
    if hardware.kind == "cpu":
        return Overhead(CPU_PROCESSES + activation, CPU_SOURCE)
    parallel = layout.devices > 1
    non_torch = NON_TORCH_PARALLEL if parallel else NON_TORCH_ALONE
    graphs = (GRAPHS_PARALLEL if parallel else GRAPHS_ALONE) if batch.graphs else 0
    return Overhead(activation + non_torch + graphs, LOG_SOURCE)


def activation_bytes(profile: ModelProfile, layout: Layout, batch: Batch) -> int:
    """Peak of activations, bytes."""
    sampler = SAMPLER_BYTES_PER_LOGIT * profile.embedding.vocab_size * batch.max_num_seqs
    width = 3 * _active_width(profile) // layout.tensor + 6 * profile.embedding.hidden_size
    forward = 2 * batch.max_num_batched_tokens * width
    return sampler + forward if profile.moe else max(sampler, forward)


def _active_width(profile: ModelProfile) -> int:
    """Intermediate features that one token passes."""
    dense = profile.mlp.intermediate_size if profile.mlp else 0
    moe = profile.moe
    if moe is None:
        return dense
    return max(dense, (moe.num_experts_per_tok + moe.num_shared_experts) * moe.moe_intermediate_size)
