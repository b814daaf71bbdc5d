"""Where a tokenizer and the model disagree, and what whoever serves them must know."""

from collections.abc import Iterator
from dataclasses import dataclass

from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.tokenizer.facts import TokenizerFacts
from autoadapter.analyze.tokenizer.special import CONFIG
from autoadapter.analyze.versions import older
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import TokenizerTraits

V5_CLASS = "TokenizersBackend"
"""What transformers 5 writes as `tokenizer_class` for tokenizers without a class of their own."""
LOSSLESS = ("bpe-byte-level", "tiktoken", "tekken")


@dataclass(frozen=True)
class TokenizerCase:
    """A model's files, what its tokenizer files say, and what the profile will say."""

    evidence: Evidence
    facts: TokenizerFacts
    traits: TokenizerTraits


def tokenizer_findings(case: TokenizerCase) -> Iterator[Finding]:
    """All that is worth telling about a tokenizer; chat templates have their own checks."""
    if case.facts.kind == "none":
        yield _absent(case)
        return
    for check in (_vocabulary, _ids_outside, _unknown_special, _no_end, _class, _slow, _spaces):
        finding = check(case)
        if finding is not None:
            yield finding


def _absent(case: TokenizerCase) -> Finding:
    where = case.evidence.repository.location
    message = f"{where} holds no tokenizer: vLLM cannot turn text into tokens."
    hint = "Add tokenizer.json and tokenizer_config.json of the model."
    return Finding(code="tokenizer.none", level=Level.BLOCKER, message=message, hint=hint, source=where)


def _vocabulary(case: TokenizerCase) -> Finding | None:
    """Token ids beyond the embedding are wrong; embedding rows beyond the vocabulary are padding."""
    rows, size = case.traits.embedding_rows, case.facts.vocab_size
    if rows is None or size is None or size == rows:
        return None
    where = case.evidence.language.source("vocab_size")
    if size > rows:
        message = f"The tokenizer knows {size} tokens, and the embedding has {rows} rows (vocab_size)."
        hint = "Some texts would end in a crash: the tokenizer belongs to another model or was extended."
        source = f"{case.facts.source} and {where}"
        return Finding(code="tokenizer.vocab-larger", level=Level.BLOCKER, message=message, hint=hint, source=source)
    message = f"The embedding has {rows} rows for {size} tokens; the rest is padding."
    return Finding(code="tokenizer.vocab-padded", level=Level.INFO, message=message, source=where)


def _ids_outside(case: TokenizerCase) -> Finding | None:
    """Ids of the config that no embedding row has: a padding index there stops the reference from being built."""
    rows, config = case.traits.embedding_rows, case.evidence.language
    keys = ("bos_token_id", "eos_token_id", "pad_token_id")
    values = {key: value if isinstance(value := config.get(key), list) else [value] for key in keys}
    beyond = [f"{key} {n}" for key, ids in values.items() for n in ids if type(n) is int and rows and n >= rows]
    if not beyond:
        return None
    message = f"{' and '.join(beyond)} lies beyond the embedding's {rows} rows: no such token can be read or sampled."
    hint = "Mend the id in config.json and generation_config.json; transformers refuses a pad_token_id like that."
    source = config.source(beyond[0].split()[0])
    return Finding(code="tokenizer.id-outside", level=Level.WARNING, message=message, hint=hint, source=source)


def _unknown_special(case: TokenizerCase) -> Finding | None:
    """A special token that the vocabulary lacks is added behind it when the tokenizer is loaded."""
    if case.facts.source != "tokenizer.json":
        return None
    lost = [f"{token.role} {token.text!r}" for token in case.facts.special_tokens if token.id is None]
    if not lost:
        return None
    shown = ", ".join(lost[:4]) + (f" and {len(lost) - 4} more" if len(lost) > 4 else "")
    message = f"{shown}: not in the vocabulary, so transformers adds it with an id that the model was never trained on."
    hint = "Name a token that tokenizer.json has, or take the tokenizer files of the original model."
    return Finding(code="tokenizer.special-unknown", level=Level.WARNING, message=message, hint=hint, source=CONFIG)


def _no_end(case: TokenizerCase) -> Finding | None:
    if case.traits.stop_token_ids:
        return None
    message = "No file says which token ends an answer: answers run until their length limit."
    hint = "Put eos_token_id into generation_config.json, or stop_token_ids into every request."
    source = case.evidence.root.source("eos_token_id")
    return Finding(code="tokenizer.no-eos", level=Level.WARNING, message=message, hint=hint, source=source)


def _class(case: TokenizerCase) -> Finding | None:
    if case.traits.tokenizer_class != V5_CLASS:
        return None
    engine = case.evidence.engine
    installed = engine.packages.get("transformers") if engine else None
    source = f"{CONFIG}:tokenizer_class"
    if installed is not None and older(installed, "5"):
        message = f"tokenizer_class is {V5_CLASS}, which transformers {installed} beside vLLM does not have."
        hint = "Write the original model's class into tokenizer_config.json (such as Qwen2Tokenizer), or use an engine "
        hint += "with transformers 5."
        return Finding(code="tokenizer.class-v5", level=Level.BLOCKER, message=message, hint=hint, source=source)
    message = f"tokenizer_class is {V5_CLASS}, which only transformers 5 knows."
    hint = "Serve it with transformers 5 or newer beside vLLM."
    return Finding(code="tokenizer.class-v5", level=Level.INFO, message=message, hint=hint, source=source)


def _slow(case: TokenizerCase) -> Finding | None:
    if not case.traits.slow_only:
        return None
    if case.facts.kind == "custom":
        message = "The tokenizer is code of the checkpoint alone (auto_map): it runs only where that code is trusted."
        hint = "Read the code first; then repeat with --trust-remote-code."
        level = Level.WARNING
    else:
        message = f"There is no tokenizer.json: {case.facts.source} is converted, or read in Python, at every start."
        hint = "Save a tokenizer.json with transformers (AutoTokenizer.from_pretrained, save_pretrained)."
        level = Level.INFO
    return Finding(code="tokenizer.slow-only", level=level, message=message, hint=hint, source=case.facts.source)


def _spaces(case: TokenizerCase) -> Finding | None:
    if case.facts.kind not in LOSSLESS or case.evidence.json(CONFIG).get("clean_up_tokenization_spaces") is not True:
        return None
    message = (
        "clean_up_tokenization_spaces is true for a tokenizer that keeps every byte: transformers then decodes "
        "'x != y' as 'x!= y', and texts do not survive the round trip."
    )
    hint = "Set it to false in tokenizer_config.json."
    source = f"{CONFIG}:clean_up_tokenization_spaces"
    return Finding(code="tokenizer.spaces-cleaned", level=Level.INFO, message=message, hint=hint, source=source)
