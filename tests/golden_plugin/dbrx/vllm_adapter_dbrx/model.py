"""Inference-only Dbrx model, compatible with the weights of `DbrxForCausalLM`.

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
from vllm.model_executor.layers.fused_moe import FusedMoE, GateLinear
from vllm.model_executor.layers.linear import QKVParallelLinear, RowParallelLinear
from vllm.model_executor.layers.logits_processor import LogitsProcessor
from vllm.model_executor.layers.rotary_embedding import get_rope
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding
from vllm.model_executor.models.interfaces import MixtureOfExperts, SupportsLoRA, SupportsPP, SupportsQuant
from vllm.model_executor.models.utils import (
    PPMissingLayer,
    WeightsMapper,
    make_empty_intermediate_tensors_factory,
    make_layers,
    maybe_prefix,
)
from vllm.sequence import IntermediateTensors

from .fingerprint import require_fitted
from .loading import load_all


class DbrxAttention(nn.Module):
    def __init__(self, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        quant_config = vllm_config.quant_config
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
        self.head_dim = config.hidden_size // self.total_num_heads
        self.q_size = self.num_heads * self.head_dim
        self.kv_size = self.num_kv_heads * self.head_dim
        self.scaling = self.head_dim**-0.5
        self.clip_qkv = config.attn_config.clip_qkv
        self.qkv_proj = QKVParallelLinear(
            hidden_size=config.hidden_size,
            head_size=self.head_dim,
            total_num_heads=self.total_num_heads,
            total_num_kv_heads=self.total_num_kv_heads,
            bias=False,
            quant_config=quant_config,
            prefix=f"{prefix}.qkv_proj",
        )
        self.o_proj = RowParallelLinear(
            input_size=self.total_num_heads * self.head_dim,
            output_size=config.hidden_size,
            bias=False,
            quant_config=quant_config,
            prefix=f"{prefix}.o_proj",
        )
        self.rotary_emb = get_rope(
            self.head_dim,
            max_position=config.max_position_embeddings,
            is_neox_style=True,
            rope_parameters=config.rope_parameters,
        )
        self.attn = Attention(
            self.num_heads,
            self.head_dim,
            self.scaling,
            num_kv_heads=self.num_kv_heads,
            cache_config=vllm_config.cache_config,
            quant_config=quant_config,
            prefix=f"{prefix}.attn",
        )

    def forward(self, positions: torch.Tensor, hidden_states: torch.Tensor) -> torch.Tensor:
        qkv, _ = self.qkv_proj(hidden_states)
        qkv = qkv.clamp(min=-self.clip_qkv, max=self.clip_qkv)
        q, k, v = qkv.split([self.q_size, self.kv_size, self.kv_size], dim=-1)
        q, k = self.rotary_emb(positions, q, k)
        attn_output = self.attn(q, k, v)
        output, _ = self.o_proj(attn_output)
        return output


class DbrxMoE(nn.Module):
    def __init__(self, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        parallel_config = vllm_config.parallel_config
        num_experts = config.ffn_config.moe_num_experts
        self.gate = GateLinear(
            config.hidden_size,
            num_experts,
            prefix=f"{prefix}.gate",
        )
        self.experts = FusedMoE(
            gate=self.gate,
            num_experts=num_experts,
            top_k=config.ffn_config.moe_top_k,
            hidden_size=config.hidden_size,
            intermediate_size=config.ffn_config.ffn_hidden_size,
            quant_config=vllm_config.quant_config,
            prefix=f"{prefix}.experts",
            renormalize=True,
            enable_eplb=parallel_config.enable_eplb,
            num_redundant_experts=parallel_config.eplb_config.num_redundant_experts,
        )

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        # The layer holds the gate: it takes the input in place of the router's logits.
        return self.experts(hidden_states=hidden_states, router_logits=hidden_states)


class DbrxDecoderLayer(nn.Module):
    def __init__(self, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        self.self_attn = DbrxAttention(vllm_config, prefix=f"{prefix}.self_attn")
        self.mlp = DbrxMoE(vllm_config, prefix=f"{prefix}.mlp")
        self.input_layernorm = nn.LayerNorm(config.hidden_size, eps=1e-05, bias=False)
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size, eps=1e-05, bias=False)

    def forward(self, positions: torch.Tensor, hidden_states: torch.Tensor) -> torch.Tensor:
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states = self.self_attn(positions, hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


@support_torch_compile
class DbrxModel(nn.Module):
    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        quant_config = vllm_config.quant_config
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
            lambda prefix: DbrxDecoderLayer(vllm_config, prefix=prefix),
            prefix=f"{prefix}.layers",
        )
        if get_pp_group().is_last_rank:
            self.norm = nn.LayerNorm(config.hidden_size, eps=1e-05, bias=False)
        else:
            self.norm = PPMissingLayer()
        self.make_empty_intermediate_tensors = make_empty_intermediate_tensors_factory(
            ["hidden_states"], config.hidden_size
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
        else:
            assert intermediate_tensors is not None
            hidden_states = intermediate_tensors["hidden_states"]
        for layer in islice(self.layers, self.start_layer, self.end_layer):
            hidden_states = layer(positions, hidden_states)
        if not get_pp_group().is_last_rank:
            return IntermediateTensors({"hidden_states": hidden_states})
        return self.norm(hidden_states)


class DbrxForCausalLM(nn.Module, SupportsLoRA, SupportsPP, SupportsQuant, MixtureOfExperts):
    hf_to_vllm_mapper = WeightsMapper(
        orig_to_new_substr={
            ".norm_attn_norm.attn.out_proj.": ".self_attn.o_proj.",
            ".norm_attn_norm.attn.Wqkv.": ".self_attn.qkv_proj.",
            ".norm_attn_norm.norm_1.": ".input_layernorm.",
            ".norm_attn_norm.norm_2.": ".post_attention_layernorm.",
            ".ffn.router.layer.": ".mlp.gate.",
            ".ffn.experts.mlp.": ".mlp.experts.",
        },
        orig_to_new_prefix={
            "transformer.blocks.": "model.layers.",
            "transformer.norm_f.": "model.norm.",
            "transformer.wte.": "model.embed_tokens.",
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
        self.model = DbrxModel(vllm_config=vllm_config, prefix=maybe_prefix(prefix, "model"))
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
            if isinstance(module, DbrxMoE):
                self.moe_layers.append(module.experts)
        self.num_moe_layers = len(self.moe_layers)
        self.num_expert_groups = 1
        self.num_shared_experts = 0
        self.num_logical_experts = config.ffn_config.moe_num_experts
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
        config = self.config
        for name, weight in weights:
            if name.endswith(".ffn.experts.mlp.v1"):
                stem = name.removesuffix(".v1")
                experts = weight.unflatten(0, (config.ffn_config.moe_num_experts, -1))
                for expert, rows in enumerate(experts):
                    yield f"{stem}.{expert}.up_proj.weight", rows
            elif name.endswith(".ffn.experts.mlp.w1"):
                stem = name.removesuffix(".w1")
                experts = weight.unflatten(0, (config.ffn_config.moe_num_experts, -1))
                for expert, rows in enumerate(experts):
                    yield f"{stem}.{expert}.gate_proj.weight", rows
            elif name.endswith(".ffn.experts.mlp.w2"):
                stem = name.removesuffix(".w2")
                experts = weight.unflatten(0, (config.ffn_config.moe_num_experts, -1))
                for expert, rows in enumerate(experts.transpose(1, 2)):
                    yield f"{stem}.{expert}.down_proj.weight", rows
            else:
                yield name, weight
