"""The tokenizer inside a GGUF file (`tokenizer.ggml.*`)."""

from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.tokenizer.facts import Edges, TokenizerFacts
from autoadapter.artifacts.model_profile import SpecialToken

ROLE_KEYS = (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown"), ("sep", "seperator"))
"""Role → key part; `seperator` is the specification's spelling."""
CONTROL = 3
"""`tokenizer.ggml.token_type` of a control token (llama.h `LLAMA_TOKEN_TYPE_CONTROL`)."""


def read(evidence: Evidence) -> TokenizerFacts | None:
    """Facts from the metadata; None when the model is no GGUF or carries no vocabulary."""
    metadata = evidence.checkpoint.metadata
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list):
        return None
    texts = [str(token) for token in tokens]
    special = []
    for role, part in ROLE_KEYS:
        number = metadata.get(f"tokenizer.ggml.{part}_token_id")
        if isinstance(number, int) and 0 <= number < len(texts):
            special.append(SpecialToken(role=role, text=texts[number], id=number))
    taken = {token.id for token in special}
    types = metadata.get("tokenizer.ggml.token_type")
    control = [number for number, kind in enumerate(types) if kind == CONTROL] if isinstance(types, list) else []
    special += [
        SpecialToken(role="additional", text=texts[number], id=number)
        for number in control
        if number < len(texts) and number not in taken
    ]
    ids = {text: number for number, text in enumerate(texts)}
    source = f"GGUF tokenizer.ggml ({metadata.get('tokenizer.ggml.model', 'unnamed model')})"
    add_bos, add_eos = (metadata.get(f"tokenizer.ggml.add_{role}_token") for role in ("bos", "eos"))
    edges = Edges(
        add_bos=add_bos if isinstance(add_bos, bool) else None, add_eos=add_eos if isinstance(add_eos, bool) else None
    )
    name = evidence.checkpoint.files[0].name
    return TokenizerFacts("gguf", (name,), len(texts), tuple(special), ids, source, edges=edges)
