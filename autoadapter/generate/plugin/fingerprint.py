"""Which settings of a config make it the architecture that was measured, and not another."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from autoadapter.artifacts.decoder import DecoderSpec

NOT_STRUCTURE = re.compile(
    r"^_|_id$|_ids$|token|dropout|drop$|pdrop|dtype|^transformers_version$|^name_or_path$|initializer|init_std$|"
    r"aux_loss|z_loss|jitter|^use_cache$|^architectures$|^auto_map$|^model_type$|^output_|^return_|^id2label$|"
    r"^label2id$|problem_type|^task_|^tokenizer|^torch|^quantization_config$|^pretraining_tp$|^chunk_size|"
    r"^is_encoder_decoder$|^tie_encoder_decoder$|^summary_|router_logits|gradient|checkpoint"
)
"""Settings that only training, the tokenizer or the library read."""


@dataclass(frozen=True)
class FingerprintModule:
    """`fingerprint.py` of the package."""

    template: ClassVar[str] = "plugin/__package__/fingerprint.py.j2"

    architecture: str
    settings: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, spec: DecoderSpec) -> Self:
        """The view of a spec."""
        return cls(spec.architecture, tuple(sorted(_settings(spec))))


def _settings(spec: DecoderSpec) -> Iterator[tuple[str, Any]]:
    """Settings that no value of the spec follows, and that the code therefore takes as given."""
    bound = set(_keys(spec.model_dump(mode="json")))
    for key, value in spec.config_seen.items():
        if NOT_STRUCTURE.search(key) or key in bound:
            continue
        if isinstance(value, bool | str | float) or value is None:
            yield key, value
        if isinstance(value, dict) and "rope_type" in value:
            yield f"{key}.rope_type", value["rope_type"]


def _keys(node: Any) -> Iterator[str]:
    """The config's names that numbers of the spec are read from."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "key" and isinstance(value, str):
                yield re.split(r"[.:]", value)[0]
            elif name != "config_seen":
                yield from _keys(value)
    elif isinstance(node, list):
        for item in node:
            yield from _keys(item)
