"""tekken.json: Mistral's own tokenizer file. Source: mistral-common `tokens/tokenizers/tekken.py`."""

from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.tokenizer.facts import Edges, TokenizerFacts
from autoadapter.analyze.tokenizer.special import rows_of
from autoadapter.artifacts.model_profile import SpecialToken

FILE = "tekken.json"
FIRST_SPECIAL = {"<unk>": 0, "<s>": 1, "</s>": 2}
"""Ids in files too old to list their special tokens."""
ROLES = (("unk", "<unk>"), ("bos", "<s>"), ("eos", "</s>"), ("pad", "<pad>"))


def read_tekken(evidence: Evidence, present: tuple[str, ...]) -> TokenizerFacts:
    """Special tokens come first, then the vocabulary, `default_vocab_size` together. BOS is always added.

    Raises:
        BrokenCheckpointError: it is not a JSON object.
    """
    document = evidence.json(FILE)
    config = document.get("config")
    size = config.get("default_vocab_size") if isinstance(config, dict) else None
    rows = rows_of(document.get("special_tokens"))
    ids = {str(row.get("token_str")): n for row in rows if isinstance(n := row.get("rank"), int)} or FIRST_SPECIAL
    special = [SpecialToken(role=role, text=text, id=ids[text]) for role, text in ROLES if text in ids]
    taken = {token.text for token in special}
    special += [SpecialToken(role="additional", text=text, id=n) for text, n in ids.items() if text not in taken]
    known = size if type(size) is int and size >= 0 else None
    ends = Edges(add_bos=True, add_eos=False)
    return TokenizerFacts("tekken", present, known, tuple(special), ids, FILE, edges=ends)
