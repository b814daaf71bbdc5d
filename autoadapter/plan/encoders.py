"""What towers of a composite model cost a server beside their weights: the cache of what they made.

Source: vLLM 0.32 `multimodal/encoder_budget.py` and `config/scheduler.py`: the cache holds as many embeddings as a step
takes tokens, or as one item of the largest size if that is more; an item is encoded whole.
"""

from collections.abc import Iterator

from autoadapter.artifacts import DeviceFact, Encoder, ModelProfile
from autoadapter.plan.activation import Batch

ELEMENT = 2
SOURCE = "vLLM 0.32 multimodal/encoder_budget.py"


def encoder_facts(profile: ModelProfile, batch: Batch) -> Iterator[DeviceFact]:
    """One fact a tower: its cache in tokens and bytes, and how many items a step encodes."""
    for encoder in profile.structure.encoders:
        yield DeviceFact(topic="encoder", text=_text(profile, encoder, batch), good=True, source=SOURCE)


def cache_tokens(encoder: Encoder, batch: Batch) -> int:
    """Embeddings that the encoder cache holds."""
    return max(batch.max_num_batched_tokens, encoder.tokens_per_item or 0)


def _text(profile: ModelProfile, encoder: Encoder, batch: Batch) -> str:
    tokens = cache_tokens(encoder, batch)
    size = tokens * profile.embedding.hidden_size * ELEMENT / 1024**3
    text = f"the {encoder.modality} tower keeps {tokens:,} embeddings ({size:.2f} GiB) beside its weights"
    if encoder.tokens_per_item:
        text += f": {tokens // encoder.tokens_per_item} items of {encoder.tokens_per_item:,} tokens a step"
    none = f"--limit-mm-per-prompt '{{\"{encoder.modality}\": 0}}'"
    return f"{text}; {none} serves text without them" if encoder.modality != "unknown" else text
