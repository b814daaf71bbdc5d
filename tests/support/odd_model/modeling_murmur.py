"""A decoder that no library has: attention and MLP side by side, one fused projection, interleaved half rotation."""

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from .configuration_murmur import MurmurConfig


def twirl(x: torch.Tensor, theta: float) -> torch.Tensor:
    """Rotate pairs (2i, 2i + 1) of the first half of the last axis; x is [batch, heads, tokens, dim]."""
    tokens, half = x.shape[-2], x.shape[-1] // 2
    rates = theta ** (-torch.arange(0, half, 2, dtype=torch.float32) / half)
    angles = torch.arange(tokens, dtype=torch.float32)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., :half:2], x[..., 1:half:2]
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
    return torch.cat((turned, x[..., half:]), dim=-1)


class Ears(nn.Module):
    """Grouped-query attention from one projection, group after group [queries, key, value]."""

    def __init__(self, config: MurmurConfig) -> None:
        super().__init__()
        self.groups, self.dim, self.theta = config.num_key_value_heads, config.head_dim, config.rope_theta
        self.each = config.num_attention_heads // self.groups
        width = config.num_attention_heads * self.dim
        self.listen = nn.Linear(config.hidden_size, width + 2 * self.groups * self.dim, bias=True)
        self.speak = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        heard = self.listen(x).view(batch, tokens, self.groups, self.each + 2, self.dim)
        queries = heard[:, :, :, : self.each].reshape(batch, tokens, -1, self.dim).transpose(1, 2)
        keys, values = (heard[:, :, :, self.each + part].transpose(1, 2) for part in (0, 1))
        queries, keys = twirl(queries, self.theta), twirl(keys, self.theta)
        keys, values = (part.repeat_interleave(self.each, dim=1) for part in (keys, values))
        scores = queries @ keys.transpose(-1, -2) / self.dim**0.5
        hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return self.speak((weights @ values).transpose(1, 2).reshape(batch, tokens, -1))


class Murmuring(nn.Module):
    """One layer: both halves read the same normed stream."""

    def __init__(self, config: MurmurConfig) -> None:
        super().__init__()
        self.hush = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.ears = Ears(config)
        self.swell = nn.Linear(config.hidden_size, config.intermediate_size)
        self.ebb = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        quiet = self.hush(x)
        return x + self.ears(quiet) + self.ebb(torch.relu(self.swell(quiet)).square())


class MurmurForCausalLM(PreTrainedModel):
    """Embedding, layers, norm, head."""

    config_class = MurmurConfig

    def __init__(self, config: MurmurConfig) -> None:
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.flock = nn.ModuleList(Murmuring(config) for _ in range(config.num_hidden_layers))
        self.last = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.voice = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.words

    def get_output_embeddings(self) -> nn.Module:
        return self.voice

    def forward(self, input_ids: torch.Tensor, **kwargs: object) -> CausalLMOutput:
        x = self.words(input_ids) * self.config.whisper_multiplier
        for layer in self.flock:
            x = layer(x)
        return CausalLMOutput(logits=self.voice(self.last(x)))
