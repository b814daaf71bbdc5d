"""The settings of a gpt_oss checkpoint, so that none of its own code has to run."""

from typing import Any

from transformers import PretrainedConfig


class GptOssConfig(PretrainedConfig):
    """Settings under their names in `config.json`; defaults are those of the checkpoint that was fitted."""

    model_type = "gpt_oss"

    def __init__(
        self,
        output_hidden_states: bool = False,
        return_dict: bool = True,
        chunk_size_feed_forward: int = 0,
        is_encoder_decoder: bool = False,
        problem_type: Any = None,
        num_hidden_layers: int = 4,
        num_local_experts: int = 8,
        vocab_size: int = 176,
        hidden_size: int = 128,
        intermediate_size: int = 96,
        head_dim: int = 32,
        num_attention_heads: int = 8,
        num_key_value_heads: int = 2,
        sliding_window: int = 8,
        tie_word_embeddings: bool = False,
        hidden_act: str = "silu",
        initializer_range: float = 0.02,
        max_position_embeddings: int = 1024,
        rms_norm_eps: float = 0.001,
        rope_parameters: dict[str, Any] | None = None,
        attention_dropout: float = 0.0,
        num_experts_per_tok: int = 4,
        swiglu_alpha: float = 1.702,
        swiglu_limit: float = 7.0,
        router_aux_loss_coef: float = 0.001,
        output_router_logits: bool = False,
        use_cache: bool = True,
        layer_types: list[Any] | None = None,
        attention_bias: bool = True,
        output_attentions: bool = False,
        **kwargs: Any,
    ) -> None:
        self.output_hidden_states = output_hidden_states
        self.return_dict = return_dict
        self.chunk_size_feed_forward = chunk_size_feed_forward
        self.is_encoder_decoder = is_encoder_decoder
        self.problem_type = problem_type
        self.num_hidden_layers = num_hidden_layers
        self.num_local_experts = num_local_experts
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.head_dim = head_dim
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        self.sliding_window = sliding_window
        self.tie_word_embeddings = tie_word_embeddings
        self.hidden_act = hidden_act
        self.initializer_range = initializer_range
        self.max_position_embeddings = max_position_embeddings
        self.rms_norm_eps = rms_norm_eps
        self.rope_parameters = rope_parameters
        self.attention_dropout = attention_dropout
        self.num_experts_per_tok = num_experts_per_tok
        self.swiglu_alpha = swiglu_alpha
        self.swiglu_limit = swiglu_limit
        self.router_aux_loss_coef = router_aux_loss_coef
        self.output_router_logits = output_router_logits
        self.use_cache = use_cache
        self.layer_types = layer_types
        self.attention_bias = attention_bias
        self.output_attentions = output_attentions
        super().__init__(**kwargs)
