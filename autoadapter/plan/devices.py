"""What is particular about a model on a device: kernels, number formats, wasted work, links."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from autoadapter.artifacts import CacheEntry, DeviceFact, Hardware, ModelProfile
from autoadapter.engine.kernels import KernelRow, kernel_rows
from autoadapter.engine.versions import release
from autoadapter.hardware import Gpu, gpu_of
from autoadapter.once import once_each
from autoadapter.plan.legality import Layout
from autoadapter.plan.legality.heads import kv_copies
from autoadapter.plan.legality.sizes import is_latent

BF16_SINCE = (8, 0)
FP8_SINCE = (8, 9)
CUDA_13_SINCE = "0.25.0"
"""The first vLLM whose default wheels are built for CUDA 13."""
SPARSE_HEADS = 64
"""Query heads a rank that sparse MLA kernels work on."""
FLASH_HEAD_DIM = 256
FLASHINFER_HEAD_DIMS = (64, 128, 256, 512)
HOPPER, BLACKWELL = 9, 10


class Case(NamedTuple):
    """What the rules look at."""

    profile: ModelProfile
    gpu: Gpu
    layout: Layout


FactRule = Callable[[Case], Iterator[DeviceFact]]


def device_facts(profile: ModelProfile, hardware: Hardware, layout: Layout) -> tuple[DeviceFact, ...]:
    """Facts for one layout, what helps and what hurts; none for a CPU or hardware outside the catalogue."""
    gpu = gpu_of(hardware)
    if gpu is None:
        return ()
    return tuple(fact for rule in FACT_RULES for fact in rule(Case(profile, gpu, layout)))


def stop_reason(profile: ModelProfile, hardware: Hardware) -> str | None:
    """Why the device cannot run the model under any layout, or None."""
    return next((fact.text for fact in device_facts(profile, hardware, Layout()) if fact.stops), None)


def _fact(topic: str, text: str, source: str, *, good: bool, stops: bool = False) -> DeviceFact:
    return DeviceFact(topic=topic, text=text, good=good, stops=stops, source=source)


def age(case: Case) -> Iterator[DeviceFact]:
    """Whether vLLM's wheels run on the GPU at all."""
    gpu, version = case.gpu, case.profile.verdict.vllm_version
    if gpu.is_served:
        return
    source = "CUDA 13 release notes: Maxwell, Pascal and Volta are gone"
    named = f"{gpu.name} (compute capability {gpu.compute_capability})"
    if release(version) >= release(CUDA_13_SINCE):
        text = f"{named} is too old for vLLM's CUDA 13 wheels"
        yield _fact("device", text, source, good=False, stops=True)
    else:
        text = f"{named} is too old for CUDA 13; whether vLLM {version}, which is older, runs on it is not known"
        yield _fact("device", text, source, good=False)


def scheme_kernels(case: Case) -> Iterator[DeviceFact]:
    """What runs a quantized checkpoint, and whether the GPU gains by it."""
    for row in kernel_rows(case.profile):
        yield _kernel(row, case.gpu, case.profile.verdict.vllm_version)


def _kernel(row: KernelRow, gpu: Gpu, version: str) -> DeviceFact:
    run = row.run_on(gpu.compute_capability)
    if row.is_gone(version):
        text = f"vLLM {version} no longer serves {row.name}: {row.until} was the last"
        return _fact("scheme", text, row.source, good=False, stops=True)
    if run is None:
        text = f"vLLM has no {row.name} kernel for compute capability {gpu.compute_capability} ({gpu.name})"
        return _fact("scheme", text, row.source, good=False, stops=True)
    text = f"{row.name} runs on {gpu.name} through {run.kernel}"
    if not run.native:
        text += ": the memory is saved, the arithmetic stays 16 bit"
    return _fact("scheme", text, row.source, good=run.native)


def number_formats(case: Case) -> Iterator[DeviceFact]:
    """Formats that the matrix units compute in, and bf16 where the GPU has none."""
    gpu = case.gpu
    if gpu.capability < BF16_SINCE and case.profile.memory.served_dtype == "bfloat16":
        text = f"{gpu.name} has no bfloat16: vLLM serves float16, which may overflow in a model trained in bfloat16"
        yield _fact("dtype", text, "vLLM 0.32 platforms/cuda.py supported_dtypes", good=False)
    units = [name for name, rate in (("FP8", gpu.fp8_tflops), ("FP4", gpu.fp4_tflops)) if rate]
    if units:
        yield _fact("formats", f"{gpu.name} multiplies in {' and '.join(units)}", gpu.source, good=True)
    else:
        yield _fact("formats", f"{gpu.name} has no FP8 or FP4 matrix unit", gpu.source, good=False)


def fp8_cache(case: Case) -> Iterator[DeviceFact]:
    """Whether `--kv-cache-dtype fp8` works here."""
    profile, gpu = case.profile, case.gpu
    if not _caches(profile) and not is_latent(profile):
        return
    if gpu.capability < FP8_SINCE:
        text = f"an FP8 KV cache needs compute capability 8.9, {gpu.name} has {gpu.compute_capability}"
        yield _fact("kv-cache", text, "vLLM 0.32 v1/attention/backends/triton_attn.py", good=False)
        return
    text = "an FP8 KV cache (--kv-cache-dtype fp8) is available and halves the bytes of a token"
    yield _fact("kv-cache", text, "vLLM 0.32 v1/attention/backends/{fa_utils,triton_attn,flashinfer}.py", good=True)


@once_each
def _caches(profile: ModelProfile) -> list[CacheEntry]:
    caches = (cache for group in profile.structure.groups for cache in group.caches)
    return [cache for cache in caches if cache.kind not in ("mla", "indexer")]


def head_sizes(case: Case) -> Iterator[DeviceFact]:
    """Head sizes outside what FlashAttention and FlashInfer take; Triton serves them, slower."""
    gpu = case.gpu
    source = "vLLM 0.32 v1/attention/backends/flash_attn.py supports_head_size, flashinfer.py get_supported_head_sizes"
    for size in sorted({cache.key_dim for cache in _caches(case.profile)}):
        flash = size % 8 == 0 and size <= FLASH_HEAD_DIM and gpu.capability >= BF16_SINCE
        flashinfer = size in FLASHINFER_HEAD_DIMS and gpu.capability >= BF16_SINCE
        if not flash and not flashinfer:
            text = f"no FlashAttention or FlashInfer for heads of {size} on {gpu.name}: Triton serves them, slower"
            yield _fact("attention", text, source, good=False)
        elif not flash and gpu.capability[0] != BLACKWELL:
            text = (
                f"heads of {size} are beyond FlashAttention 2 and 3: FlashInfer, FlashAttention 4 or Triton serve them"
            )
            yield _fact("attention", text, source, good=False)


def head_padding(case: Case) -> Iterator[DeviceFact]:
    """Query heads that sparse MLA kernels pad with zeros."""
    profile = case.profile
    is_sparse = any(cache.kind == "indexer" for group in profile.structure.groups for cache in group.caches)
    heads = profile.attention.num_attention_heads // case.layout.tensor
    if not is_latent(profile) or not is_sparse or case.gpu.capability[0] not in (HOPPER, BLACKWELL):
        return
    if 0 < heads < SPARSE_HEADS:
        share = 1 - heads / SPARSE_HEADS
        text = (
            f"{heads} query heads a rank: FlashMLA's sparse kernels pad them to {SPARSE_HEADS}, {share:.0%} of that "
            "attention's work is wasted; data-parallel attention keeps all heads on each rank"
        )
        yield _fact("attention", text, "vLLM 0.32 v1/attention/backends/mla/flashmla_sparse.py", good=False)


def repeated_cache(case: Case) -> Iterator[DeviceFact]:
    """KV cache that tensor parallelism repeats instead of dividing."""
    profile, layout = case.profile, case.layout
    if layout.tensor == 1:
        return
    source = "vLLM 0.32 config/model.py get_num_kv_heads"
    if is_latent(profile):
        text = (
            f"each of the {layout.tensor} ranks keeps the whole latent KV cache: --data-parallel-size "
            f"{layout.tensor} with --enable-expert-parallel holds up to {layout.tensor} times the tokens, "
            "--decode-context-parallel-size divides them"
        )
        yield _fact("kv-cache", text, f"{source}; vllm-project/recipes#762 (7.7 times measured)", good=False)
    elif (copies := kv_copies(profile, layout.tensor)) > 1:
        text = f"{copies} ranks keep the same key/value heads: {1 - 1 / copies:.0%} of the KV memory holds copies"
        yield _fact("kv-cache", text, source, good=False)


def links(case: Case) -> Iterator[DeviceFact]:
    """What the ranks talk over: every layer ends in an all-reduce of the tensor-parallel group."""
    gpu, layout = case.gpu, case.layout
    link, ranks = gpu.interconnect, layout.expert_ranks if layout.expert_parallel else layout.tensor
    if layout.devices == 1:
        return
    if ranks > link.island:
        joined = "each alone" if link.island == 1 else f"in islands of {link.island}"
        text = f"{ranks} ranks exchange every layer, {gpu.name} devices are joined {joined}: the network sets the pace"
        yield _fact("interconnect", text, gpu.source, good=False)
    elif link.kind == "pcie" and ranks > 1:
        text = (
            f"{gpu.name} devices talk over PCIe ({link.gb_s:g} GB/s a direction): tensor parallelism pays an "
            "all-reduce twice a layer; replicas or pipeline stages exchange less"
        )
        yield _fact("interconnect", text, gpu.source, good=False)
    elif link.kind == "nvlink":
        yield _fact("interconnect", f"NVLink, {link.gb_s:g} GB/s a direction and device", gpu.source, good=True)


FACT_RULES: tuple[FactRule, ...] = (
    age,
    scheme_kernels,
    number_formats,
    fp8_cache,
    head_sizes,
    head_padding,
    repeated_cache,
    links,
)
