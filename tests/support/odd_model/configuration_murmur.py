"""A decoder that no library has: its configuration."""

from transformers import PretrainedConfig


class MurmurConfig(PretrainedConfig):
    """Sizes under the usual keys; everything else about the model is its own."""

    model_type = "murmur"

    def __init__(
        self,
        vocab_size: int = 384,
        hidden_size: int = 128,
        intermediate_size: int = 192,
        num_hidden_layers: int = 3,
        num_attention_heads: int = 4,
        num_key_value_heads: int = 2,
        head_dim: int = 32,
        layer_norm_eps: float = 1e-5,
        rope_theta: float = 5000.0,
        whisper_multiplier: float = 3.0,
        max_position_embeddings: int = 256,
        tie_word_embeddings: bool = False,
        **kwargs: object,
    ) -> None:
        self.vocab_size, self.hidden_size, self.intermediate_size = vocab_size, hidden_size, intermediate_size
        self.num_hidden_layers, self.num_attention_heads = num_hidden_layers, num_attention_heads
        self.num_key_value_heads, self.head_dim = num_key_value_heads, head_dim
        self.layer_norm_eps, self.rope_theta = layer_norm_eps, rope_theta
        self.whisper_multiplier, self.max_position_embeddings = whisper_multiplier, max_position_embeddings
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)
