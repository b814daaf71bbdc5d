"""Worker: what vLLM itself answers about the KV cache of described layers. Run by path in the engine's interpreter.

Specs come from vLLM's own layer classes, block sizes from its platform code, groups and blocks from its
`kv_cache_utils`; only what would need weights or a device is a stand-in. Request: `launcher`, `cases`. Result:
`answers`, one each, with `error` where vLLM refuses.
"""

import contextlib
import importlib
import json
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

REQUEST = json.loads(Path(sys.argv[1]).read_text())
sys.path.insert(0, REQUEST["launcher"])
importlib.import_module("launcher")

import torch  # noqa: E402
import vllm.config.vllm as vllm_config_module  # noqa: E402
from vllm.config import ModelConfig, VllmConfig  # noqa: E402
from vllm.distributed.utils import get_pp_indices  # noqa: E402
from vllm.model_executor.layers.attention.attention import Attention  # noqa: E402
from vllm.model_executor.layers.attention.chunked_local_attention import ChunkedLocalAttention  # noqa: E402
from vllm.model_executor.layers.attention.mla_attention import (  # noqa: E402
    MLAAttention,
    _canonicalize_sparse_mla_kv_cache_dtype,
)
from vllm.model_executor.layers.mamba.abstract import MambaBase  # noqa: E402
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator  # noqa: E402
from vllm.model_executor.models import ModelRegistry  # noqa: E402
from vllm.model_executor.models.deepseek_v2 import DeepseekV32IndexerCache  # noqa: E402
from vllm.models.deepseek_v4.attention import (  # noqa: E402
    DeepseekV4Attention,
    DeepseekV4IndexerCache,
    _resolve_dsv4_kv_cache_dtype,
)
from vllm.models.deepseek_v4.compressor import CompressorBackend, CompressorStateCache  # noqa: E402
from vllm.models.deepseek_v4.sparse_mla import DeepseekV4FlashMLABackend  # noqa: E402
from vllm.platforms.interface import Platform  # noqa: E402
from vllm.utils.torch_utils import kv_cache_dtype_str_to_dtype  # noqa: E402
from vllm.v1.attention.backend import AttentionType  # noqa: E402
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend  # noqa: E402
from vllm.v1.attention.backends.mla.cpu_mla import CPUMLABackend  # noqa: E402
from vllm.v1.attention.backends.mla.flashmla_sparse import FlashMLASparseBackend  # noqa: E402
from vllm.v1.attention.backends.mla.indexer import DeepseekV4IndexerBackend, DeepseekV32IndexerBackend  # noqa: E402
from vllm.v1.attention.backends.mla.sparse_swa import DeepseekSparseSWABackend, DeepseekV4SWACache  # noqa: E402
from vllm.v1.attention.backends.mla.triton_mla import TritonMLABackend  # noqa: E402
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend  # noqa: E402
from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts, resolve_kv_cache_layout  # noqa: E402
from vllm.v1.core import kv_cache_utils as utils  # noqa: E402
from vllm.v1.kv_cache_interface import AttentionSpec  # noqa: E402
from vllm.v1.worker.utils import customize_attention_spec  # noqa: E402

vllm_config_module.set_current_vllm_config = lambda _: contextlib.nullcontext()
CPU_BLOCK, CPU_MLA_BLOCK, DEFAULT_BLOCK = 128, 16, 16
V4_READERS = [DeepseekV4FlashMLABackend, DeepseekSparseSWABackend, DeepseekV4IndexerBackend, CompressorBackend]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Config:
    """The parts of a VllmConfig that the cache depends on; derived numbers are vLLM's own properties."""

    max_concurrent_batches = VllmConfig.max_concurrent_batches
    max_in_flight_tokens = VllmConfig.max_in_flight_tokens
    num_prefill_lookahead_tokens = VllmConfig.num_prefill_lookahead_tokens
    num_speculative_tokens = VllmConfig.num_speculative_tokens
    use_v2_model_runner = True

    def __init__(self, asked: dict[str, Any], *, mla: bool, hybrid: str) -> None:
        """Take a question as the test asks it."""
        self.parallel_config = SimpleNamespace(
            tensor_parallel_size=asked["tensor_parallel"],
            pipeline_parallel_size=asked["pipeline_parallel"],
            decode_context_parallel_size=asked["decode_context_parallel"],
            prefill_context_parallel_size=1,
        )
        self.scheduler_config = SimpleNamespace(
            max_num_batched_tokens=asked["max_num_batched_tokens"],
            async_scheduling=asked["async_scheduling"],
            disable_hybrid_kv_cache_manager=not asked["hybrid_manager"],
        )
        mode = "align" if asked["prefix_caching"] and hybrid != "states" else "none"
        self.cache_config = SimpleNamespace(
            block_size=asked["block_size"],
            cache_dtype=asked["kv_cache_dtype"],
            mamba_cache_mode=mode,
            mamba_block_size=None if mode == "align" else asked["max_model_len"],
            mamba_page_size_padded=None,
            skip_page_size_padded=None,
            kv_cache_dtype_skip_layers=[],
            num_gpu_blocks_override=None,
            kv_cache_layout=None,
            enable_prefix_caching=asked["prefix_caching"],
            prefix_cache_retention_interval=None,
            use_replayssm=False,
        )
        self.cache_config.get_resolved_kv_cache_layout = lambda: layout_named(self.cache_config.kv_cache_layout)
        self.model_config = SimpleNamespace(
            max_model_len=asked["max_model_len"],
            original_max_model_len=asked["max_model_len"],
            dtype=DTYPES[asked["model_dtype"]],
            use_mla=mla,
            architecture="a stand-in",
            hf_config=SimpleNamespace(model_type="a stand-in"),
        )
        self.attention_config = SimpleNamespace(hisparse_config=None)
        self.diffusion_config = self.kv_transfer_config = self.speculative_config = None
        if asked["speculative_tokens"]:
            modules = asked["multi_module_predictor"]
            self.speculative_config = SimpleNamespace(
                num_speculative_tokens=asked["speculative_tokens"],
                method="a stand-in",
                use_eagle=lambda: True,
                use_eagle_block_drop=lambda: False,
                use_multi_module_mtp=lambda: modules,
            )


def layout_named(name: str) -> Any:
    """A layout of vLLM by name."""
    from vllm.v1.kv_cache_layout import KVCacheLayout

    return KVCacheLayout[name]


def rank_heads(config: Config, total: int) -> int:
    """Key/value heads of one rank, by vLLM's own method."""
    model = SimpleNamespace(use_mla=False, model_arch_config=SimpleNamespace(total_num_kv_heads=total))
    return ModelConfig.get_num_kv_heads(model, config.parallel_config)


def attention_spec(cache: dict[str, Any], config: Config, backend: Any) -> tuple[Any, Any]:
    """A layer of keys and values, and its backend."""
    word = config.cache_config.cache_dtype
    layer = SimpleNamespace(
        attn_type=AttentionType.DECODER,
        kv_cache_dtype=word,
        kv_cache_torch_dtype=kv_cache_dtype_str_to_dtype(word, config.model_config),
        sliding_window=cache["window"] if cache["kind"] == "sliding" else None,
        attention_chunk_size=cache["window"],
        attn_backend=backend,
        num_kv_heads=rank_heads(config, cache["heads"]),
        head_size=cache["key"],
        head_size_v=cache["value"],
    )
    owner = ChunkedLocalAttention if cache["kind"] == "chunked" else Attention
    return owner.get_kv_cache_spec(layer, config), backend


def latent_spec(cache: dict[str, Any], config: Config, backend: Any, *, leads: bool, sparse: bool) -> tuple[Any, Any]:
    """A latent of MLA, or keys of an indexer."""
    word = config.cache_config.cache_dtype
    if cache["kind"] == "indexer":
        indexer = SimpleNamespace(cache_config=config.cache_config, head_dim=cache["key"], dtype=torch.uint8)
        return DeepseekV32IndexerCache.get_kv_cache_spec(indexer, config), DeepseekV32IndexerBackend
    if sparse:
        word = _canonicalize_sparse_mla_kv_cache_dtype(backend, word)
    layer = SimpleNamespace(
        kv_cache_dtype=word,
        head_size=cache["key"],
        sliding_window=cache["window"],
        indexer=object() if leads else None,
        non_causal_multi_token_decode=False,
    )
    return MLAAttention.get_kv_cache_spec(layer, config), backend


def compressed_spec(cache: dict[str, Any], config: Config) -> tuple[Any, Any]:
    """Caches of DeepSeek-V4."""
    word, dtype = _resolve_dsv4_kv_cache_dtype(True, config.cache_config.cache_dtype, config.cache_config)
    if cache["kind"] == "v4_window":
        fields = {"bounded_replay": False, "block_size": 64, "head_dim": cache["key"], "dtype": dtype}
        fields |= {"window_size": cache["window"], "cache_config": config.cache_config}
        fields |= {"packed_bytes_per_token": 584, "packed_page_alignment": 576}
        return DeepseekV4SWACache.get_kv_cache_spec(SimpleNamespace(**fields), config), DeepseekSparseSWABackend
    if cache["kind"] == "v4_entry":
        layer = SimpleNamespace(
            compress_ratio=cache["ratio"], kv_cache_dtype=word, head_dim=cache["key"], kv_cache_torch_dtype=dtype
        )
        return DeepseekV4Attention.get_kv_cache_spec(layer, config), DeepseekV4FlashMLABackend
    if cache["kind"] == "v4_index":
        layer = SimpleNamespace(
            cache_config=config.cache_config, head_dim=cache["key"], dtype=torch.uint8, compress_ratio=cache["ratio"]
        )
        return DeepseekV4IndexerCache.get_kv_cache_spec(layer, config), DeepseekV4IndexerBackend
    block = {4: 4, 128: 8}[cache["ratio"]]
    layer = SimpleNamespace(
        block_size=block, state_dim=cache["key"], dtype=torch.float32, sliding_window=cache["window"]
    )
    return CompressorStateCache.get_kv_cache_spec(layer, config), CompressorBackend


def state_shapes(state: dict[str, Any], config: Config) -> Any:
    """Shapes of a recurrent state, by vLLM's own calculator."""
    calculator = getattr(MambaStateShapeCalculator, f"{state['kind']}_state_shape")
    size = "tp_size" if state["kind"] == "linear_attention" else "tp_world_size"
    given = {size: config.parallel_config.tensor_parallel_size, **state["sizes"]}
    if state["kind"] not in ("mamba1", "linear_attention"):
        given["num_spec"] = config.num_speculative_tokens
    return calculator(**given)


def state_spec(state: dict[str, Any], config: Config) -> Any:
    """The state of a recurrent layer."""
    dtypes = tuple(DTYPES[name] for name in state["dtypes"])
    layer = SimpleNamespace(
        get_state_shape=lambda: state_shapes(state, config),
        get_state_dtype=lambda: dtypes,
        mamba_type="mamba2",
        is_kv_cache_tp_replicated=False,
    )
    return MambaBase.get_kv_cache_spec(layer, config)


def align(config: Config, case: dict[str, Any], backend: Any) -> None:
    """Let vLLM's platform code settle the block size of a model of attention and states."""
    state = next(layer["state"] for layer in case["layers"] if layer["state"])
    caches = [cache for layer in case["layers"] for cache in layer["caches"]]
    attention = min(caches, key=lambda cache: cache["kind"] != "mla")
    dtypes = tuple(DTYPES[name] for name in state["dtypes"])
    model = SimpleNamespace(
        get_mamba_state_shape_from_config=lambda _: state_shapes(state, config),
        get_mamba_state_dtype_from_config=lambda _: dtypes,
    )
    heads = 1 if config.model_config.use_mla else rank_heads(config, attention["heads"])
    config.model_config.get_num_kv_heads = lambda _: heads
    config.model_config.get_head_size = lambda: attention["key"]

    class Here(Platform):
        @classmethod
        def _find_non_ssm_backends(cls, vllm_config: Any) -> list[Any]:
            return [backend]

    ModelRegistry.resolve_model_cls = lambda *_, **__: (model, "")
    Here._align_hybrid_block_size(config, backend)


def settle(config: Config, readers: list[Any], *, on_cpu: bool) -> None:
    """The block size that vLLM takes where the user says none; a CPU's is a constant inside a longer function."""
    cache = config.cache_config
    if on_cpu:
        cache.block_size = CPU_MLA_BLOCK if CPUMLABackend in readers else cache.block_size or CPU_BLOCK
    elif cache.block_size is None:
        cache.block_size = Platform._preferred_block_size_for_backends(readers, DEFAULT_BLOCK, config)
    cache.mamba_block_size = cache.mamba_block_size or cache.block_size


def specs_of(case: dict[str, Any], config: Config) -> tuple[dict[str, Any], list[Any]]:
    """Specs of all layers by name, and the backends that read them."""
    kinds = {cache["kind"] for layer in case["layers"] for cache in layer["caches"]}
    on_cpu = case["question"]["device"] == "cpu"
    mla = {"mla", "indexer"} & kinds
    sparse = "indexer" in kinds and "mla" in kinds
    plain = CPUAttentionBackend if on_cpu else TritonAttentionBackend
    latent = CPUMLABackend if on_cpu else FlashMLASparseBackend if sparse else TritonMLABackend
    backend = latent if mla else plain
    readers = V4_READERS if "v4_window" in kinds else [DeepseekV32IndexerBackend, backend] if sparse else [backend]
    settle(config, readers, on_cpu=on_cpu)
    if any(layer["state"] for layer in case["layers"]) and kinds:
        align(config, case, backend)
    specs, backends = {}, []
    for number, layer in enumerate(case["layers"]):
        leads = any(cache["kind"] == "indexer" for cache in layer["caches"])
        for place, cache in enumerate(layer["caches"]):
            if cache["kind"].startswith("v4_"):
                spec, reader = compressed_spec(cache, config)
            elif cache["kind"] in ("mla", "indexer"):
                spec, reader = latent_spec(cache, config, latent, leads=leads, sparse=sparse and not on_cpu)
            else:
                spec, reader = attention_spec(cache, config, plain)
            specs[f"{number}.{place}"] = (
                customize_attention_spec(reader, spec) if isinstance(spec, AttentionSpec) else spec
            )
            backends += [reader] if reader not in backends else []
        if layer["state"]:
            specs[f"{number}.state"] = state_spec(layer["state"], config)
    return specs, backends


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """What vLLM says of one case."""
    asked, kinds = case["question"], {cache["kind"] for layer in case["layers"] for cache in layer["caches"]}
    config = Config(asked, mla="mla" in kinds, hybrid="attention" if kinds else "states")
    specs, backends = specs_of(case, config)
    layouts = [layout.name for layout in get_supported_kv_cache_layouts(backends)]
    resolve_kv_cache_layout(config, [layouts], specs.values())
    stages = asked["pipeline_parallel"]
    spans = [get_pp_indices(len(case["layers"]), rank, stages) for rank in range(stages)]
    mine = [{k: v for k, v in specs.items() if start <= int(k.split(".")[0]) < end} for start, end in spans]
    merged = dict(specs)
    retained = max(0, config.num_prefill_lookahead_tokens - 1)
    for name, spec in merged.items():
        if hasattr(spec, "extra_retained_tokens"):
            merged[name] = utils.replace(spec, extra_retained_tokens=retained)
    groups = utils.get_kv_cache_groups(config, merged)
    projected = [utils._project_kv_cache_groups_to_worker(groups, part) for part in mine]
    sizes = [utils._pool_bytes_per_block(config, part) for part in projected]
    configs = [
        utils.get_kv_cache_config_from_groups(config, part, pool)
        for part, pool in zip(projected, case["pools"], strict=True)
    ]
    blocks = min(one.num_blocks for one in configs)
    configs[0].num_blocks = blocks
    scheduler = utils.generate_scheduler_kv_cache_config([configs[0]])
    tokens, concurrency = utils.get_kv_cache_capacity(config, scheduler)
    usable = [pool - size for pool, size in zip(case["pools"], sizes, strict=True)]
    needed = [utils._max_memory_usage_bytes_from_groups(config, part) for part in projected]
    config.model_config.max_model_len = case["limit"]
    longest = min(
        utils._estimate_max_model_len_from_groups(config, part, pool)
        for part, pool in zip(projected, usable, strict=True)
    )
    config.model_config.max_model_len = asked["max_model_len"]
    return {
        "block_size": config.cache_config.block_size,
        "groups": [[sorted(group.layer_names), group.kv_cache_spec.block_size] for group in groups],
        "stage_bytes": sizes,
        "blocks": blocks,
        "tokens": tokens,
        "concurrency": concurrency,
        "needed": needed,
        "longest": longest,
        "starts": starts(config, mine, case["pools"]),
    }


def starts(config: Config, specs: list[dict[str, Any]], pools: list[int]) -> int | None:
    """Whether vLLM's whole start-up check passes, and with how many blocks."""
    try:
        return utils.get_kv_cache_configs(config, specs, pools)[0].num_blocks
    except ValueError as error:
        if "KV cache is needed" in str(error) or "No available memory" in str(error):
            return None
        raise


def guarded(case: dict[str, Any]) -> dict[str, Any]:
    """The answer, or the error that vLLM itself ended with; an error of this file is raised."""
    try:
        return answer(case)
    except (AssertionError, NotImplementedError, TypeError, ValueError, ZeroDivisionError) as error:
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        if Path(where).is_relative_to(Path(utils.__file__).parents[2]):
            return {"error": f"{type(error).__name__}: {error}"}
        raise


Path(sys.argv[2]).write_text(json.dumps({"answers": [guarded(case) for case in REQUEST["cases"]]}))
