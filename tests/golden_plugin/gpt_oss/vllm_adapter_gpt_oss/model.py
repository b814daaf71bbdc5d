"""Inference-only GptOss model, compatible with the weights of `GptOssForCausalLM`.

Rendered by AutoAdapter 0.1.0 from what was measured on the reference implementation.
"""

from collections.abc import Iterable
from itertools import islice

import torch
from torch import nn
from vllm.compilation.decorators import support_torch_compile
from vllm.config import VllmConfig
from vllm.distributed import get_pp_group, get_tensor_model_parallel_world_size
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.fused_moe import FusedMoEFactory, GateLinear, RoutedExperts
from vllm.model_executor.layers.layernorm import RMSNorm
from vllm.model_executor.layers.linear import QKVParallelLinear, RowParallelLinear
from vllm.model_executor.layers.logits_processor import LogitsProcessor
from vllm.model_executor.layers.rotary_embedding import get_rope
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding
from vllm.model_executor.model_loader.weight_utils import sharded_weight_loader
from vllm.model_executor.models.interfaces import MixtureOfExperts, SupportsLoRA, SupportsPP, SupportsQuant
from vllm.model_executor.models.utils import (
    PPMissingLayer,
    WeightsMapper,
    extract_layer_index,
    make_empty_intermediate_tensors_factory,
    make_layers,
    maybe_prefix,
)
from vllm.model_executor.utils import set_weight_attrs
from vllm.sequence import IntermediateTensors

from .fingerprint import require_fitted
from .loading import load_all


class GptOssAttention(nn.Module):
    def __init__(self, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        quant_config = vllm_config.quant_config
        layer_idx = extract_layer_index(prefix)
        is_sliding_attention = config.layer_types[layer_idx] == "sliding_attention"
        tp_size = get_tensor_model_parallel_world_size()
        self.total_num_heads = config.num_attention_heads
        assert self.total_num_heads % tp_size == 0
        self.num_heads = self.total_num_heads // tp_size
        self.total_num_kv_heads = config.num_key_value_heads
        if self.total_num_kv_heads >= tp_size:
            # Each rank has some of the key/value heads.
            assert self.total_num_kv_heads % tp_size == 0
        else:
            # Each key/value head is on several ranks.
            assert tp_size % self.total_num_kv_heads == 0
        self.num_kv_heads = max(1, self.total_num_kv_heads // tp_size)
        self.head_dim = config.head_dim
        self.q_size = self.num_heads * self.head_dim
        self.kv_size = self.num_kv_heads * self.head_dim
        self.scaling = self.head_dim**-0.5
        self.qkv_proj = QKVParallelLinear(
            hidden_size=config.hidden_size,
            head_size=self.head_dim,
            total_num_heads=self.total_num_heads,
            total_num_kv_heads=self.total_num_kv_heads,
            bias=True,
            quant_config=quant_config,
            prefix=f"{prefix}.qkv_proj",
        )
        self.o_proj = RowParallelLinear(
            input_size=self.total_num_heads * self.head_dim,
            output_size=config.hidden_size,
            bias=True,
            quant_config=quant_config,
            prefix=f"{prefix}.o_proj",
        )
        self.rotary_emb = get_rope(
            self.head_dim,
            max_position=config.max_position_embeddings,
            is_neox_style=True,
            rope_parameters=config.rope_parameters,
        )
        self.sinks = nn.Parameter(torch.empty(self.num_heads))
        set_weight_attrs(self.sinks, {"weight_loader": sharded_weight_loader(0)})
        self.attn = Attention(
            self.num_heads,
            self.head_dim,
            self.scaling,
            num_kv_heads=self.num_kv_heads,
            cache_config=vllm_config.cache_config,
            quant_config=quant_config,
            per_layer_sliding_window=config.sliding_window if is_sliding_attention else None,
            prefix=f"{prefix}.attn",
            sinks=self.sinks,
        )

    def forward(self, positions: torch.Tensor, hidden_states: torch.Tensor) -> torch.Tensor:
        qkv, _ = self.qkv_proj(hidden_states)
        q, k, v = qkv.split([self.q_size, self.kv_size, self.kv_size], dim=-1)
        q, k = self.rotary_emb(positions, q, k)
        attn_output = self.attn(q, k, v)
        output, _ = self.o_proj(attn_output)
        return output


class GptOssMoERoutedExperts(RoutedExperts):
    """Experts whose gate and up rows alternate, as the `swigluoai` kernels read them."""

    def _load_w13(
        self,
        expert_data: torch.Tensor,
        shard_dim: int,
        shard_id: str,
        loaded_weight: torch.Tensor,
        tp_rank: int,
        load_full: bool = False,
    ) -> None:
        rows = expert_data[0::2] if shard_id == "w1" else expert_data[1::2]
        start = 0 if load_full else tp_rank * rows.shape[0]
        rows.copy_(loaded_weight.narrow(shard_dim, start, rows.shape[0]))


class GptOssMoE(nn.Module):
    def __init__(self, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        parallel_config = vllm_config.parallel_config
        num_experts = config.num_local_experts
        self.gate = GateLinear(
            config.hidden_size,
            num_experts,
            bias=True,
            prefix=f"{prefix}.gate",
        )
        self.experts = FusedMoEFactory(
            gate=self.gate,
            num_experts=num_experts,
            top_k=config.num_experts_per_tok,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            quant_config=vllm_config.quant_config,
            prefix=f"{prefix}.experts",
            renormalize=True,
            activation="swigluoai",
            has_bias=True,
            routed_experts_cls=GptOssMoERoutedExperts,
            enable_eplb=parallel_config.enable_eplb,
            num_redundant_experts=parallel_config.eplb_config.num_redundant_experts,
        )

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        # The layer holds the gate: it takes the input in place of the router's logits.
        return self.experts(hidden_states=hidden_states, router_logits=hidden_states)


class GptOssDecoderLayer(nn.Module):
    def __init__(self, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        self.self_attn = GptOssAttention(vllm_config, prefix=f"{prefix}.self_attn")
        self.mlp = GptOssMoE(vllm_config, prefix=f"{prefix}.mlp")
        self.input_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self,
        positions: torch.Tensor,
        hidden_states: torch.Tensor,
        residual: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if residual is None:
            residual = hidden_states
            hidden_states = self.input_layernorm(hidden_states)
        else:
            hidden_states, residual = self.input_layernorm(hidden_states, residual)
        hidden_states = self.self_attn(positions, hidden_states)
        hidden_states, residual = self.post_attention_layernorm(hidden_states, residual)
        hidden_states = self.mlp(hidden_states)
        return hidden_states, residual


@support_torch_compile
class GptOssModel(nn.Module):
    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        quant_config = vllm_config.quant_config
        # vLLM gives a window of the config to every layer: here each layer names its own.
        vllm_config.cache_config.sliding_window = None
        if get_pp_group().is_first_rank:
            self.embed_tokens = VocabParallelEmbedding(
                config.vocab_size,
                config.hidden_size,
                quant_config=quant_config,
                prefix=f"{prefix}.embed_tokens",
            )
        else:
            self.embed_tokens = PPMissingLayer()
        self.start_layer, self.end_layer, self.layers = make_layers(
            config.num_hidden_layers,
            lambda prefix: GptOssDecoderLayer(vllm_config, prefix=prefix),
            prefix=f"{prefix}.layers",
        )
        if get_pp_group().is_last_rank:
            self.norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        else:
            self.norm = PPMissingLayer()
        self.make_empty_intermediate_tensors = make_empty_intermediate_tensors_factory(
            ["hidden_states", "residual"], config.hidden_size
        )

    def embed_input_ids(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.embed_tokens(input_ids)

    def forward(
        self,
        input_ids: torch.Tensor | None,
        positions: torch.Tensor,
        intermediate_tensors: IntermediateTensors | None = None,
        inputs_embeds: torch.Tensor | None = None,
    ) -> torch.Tensor | IntermediateTensors:
        if get_pp_group().is_first_rank:
            hidden_states = inputs_embeds if inputs_embeds is not None else self.embed_input_ids(input_ids)
            residual = None
        else:
            assert intermediate_tensors is not None
            hidden_states = intermediate_tensors["hidden_states"]
            residual = intermediate_tensors["residual"]
        for layer in islice(self.layers, self.start_layer, self.end_layer):
            hidden_states, residual = layer(positions, hidden_states, residual)
        if not get_pp_group().is_last_rank:
            return IntermediateTensors({"hidden_states": hidden_states, "residual": residual})
        hidden_states, _ = self.norm(hidden_states, residual)
        return hidden_states


class GptOssForCausalLM(nn.Module, SupportsLoRA, SupportsPP, SupportsQuant, MixtureOfExperts):
    hf_to_vllm_mapper = WeightsMapper(
        orig_to_new_substr={
            ".mlp.router.": ".mlp.gate.",
        },
        orig_to_new_stacked={
            ".k_proj": (".qkv_proj", "k"),
            ".q_proj": (".qkv_proj", "q"),
            ".v_proj": (".qkv_proj", "v"),
        },
    )
    packed_modules_mapping = {
        "qkv_proj": ["q_proj", "k_proj", "v_proj"],
    }

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        require_fitted(config)
        quant_config = vllm_config.quant_config
        self.config = config
        self.model = GptOssModel(vllm_config=vllm_config, prefix=maybe_prefix(prefix, "model"))
        if get_pp_group().is_last_rank:
            self.lm_head = ParallelLMHead(
                config.vocab_size,
                config.hidden_size,
                quant_config=quant_config,
                prefix=maybe_prefix(prefix, "lm_head"),
            )
            self.logits_processor = LogitsProcessor(config.vocab_size)
        else:
            self.lm_head = PPMissingLayer()
        self.make_empty_intermediate_tensors = self.model.make_empty_intermediate_tensors
        parallel_config = vllm_config.parallel_config
        self.moe_layers = []
        for module in self.model.modules():
            if isinstance(module, GptOssMoE):
                self.moe_layers.append(module.experts)
        self.num_moe_layers = len(self.moe_layers)
        self.num_expert_groups = 1
        self.num_shared_experts = 0
        self.num_logical_experts = config.num_local_experts
        self.num_routed_experts = self.num_logical_experts
        self.num_redundant_experts = parallel_config.eplb_config.num_redundant_experts
        self.num_physical_experts = self.num_logical_experts + self.num_redundant_experts
        self.num_local_physical_experts = self.num_physical_experts
        if self.moe_layers:
            self.num_local_physical_experts = self.moe_layers[0].routed_experts.local_num_experts

    def embed_input_ids(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.model.embed_input_ids(input_ids)

    def forward(
        self,
        input_ids: torch.Tensor | None,
        positions: torch.Tensor,
        intermediate_tensors: IntermediateTensors | None = None,
        inputs_embeds: torch.Tensor | None = None,
    ) -> torch.Tensor | IntermediateTensors:
        return self.model(input_ids, positions, intermediate_tensors, inputs_embeds)

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor | None:
        return self.logits_processor(self.lm_head, hidden_states)

    def update_physical_experts_metadata(self, num_physical_experts: int, num_local_physical_experts: int) -> None:
        assert self.num_local_physical_experts == num_local_physical_experts
        self.num_physical_experts = num_physical_experts
        self.num_local_physical_experts = num_local_physical_experts
        self.num_redundant_experts = num_physical_experts - self.num_logical_experts
        for experts in self.moe_layers:
            experts.update_expert_map()

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        return load_all(self, self.reshaped(weights))

    def reshaped(self, weights: Iterable[tuple[str, torch.Tensor]]) -> Iterable[tuple[str, torch.Tensor]]:
        """The checkpoint's tensors, laid out as vLLM's layers expect them."""
        for name, weight in weights:
            if name.endswith(".mlp.experts.down_proj"):
                stem = name.removesuffix(".down_proj")
                for expert, rows in enumerate(weight.transpose(1, 2)):
                    yield f"{stem}.{expert}.down_proj.weight", rows
            elif name.endswith(".mlp.experts.down_proj_bias"):
                stem = name.removesuffix(".down_proj_bias")
                for expert, rows in enumerate(weight):
                    yield f"{stem}.{expert}.down_proj.bias", rows
            elif name.endswith(".mlp.experts.gate_up_proj"):
                stem = name.removesuffix(".gate_up_proj")
                for expert, rows in enumerate(weight.transpose(1, 2)):
                    gate_proj, up_proj = rows[0::2], rows[1::2]
                    yield f"{stem}.{expert}.gate_proj.weight", gate_proj
                    yield f"{stem}.{expert}.up_proj.weight", up_proj
            elif name.endswith(".mlp.experts.gate_up_proj_bias"):
                stem = name.removesuffix(".gate_up_proj_bias")
                for expert, rows in enumerate(weight):
                    gate_proj, up_proj = rows[0::2], rows[1::2]
                    yield f"{stem}.{expert}.gate_proj.bias", gate_proj
                    yield f"{stem}.{expert}.up_proj.bias", up_proj
            else:
                yield name, weight
