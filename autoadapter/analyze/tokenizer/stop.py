"""Which tokens end an answer: config, generation config and chat template, and where they differ."""

from dataclasses import dataclass, field

from pydantic import JsonValue

from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.tokenizer.chat_template import ChatTemplate
from autoadapter.analyze.tokenizer.facts import TokenizerFacts
from autoadapter.artifacts import Finding, Level


@dataclass(frozen=True)
class StopTokens:
    """Ids that end an answer, ascending."""

    ids: tuple[int, ...]
    source: str
    findings: tuple[Finding, ...] = ()
    by_source: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Where each is said."""


def stop_tokens(evidence: Evidence, facts: TokenizerFacts, template: ChatTemplate | None) -> StopTokens:
    """The union of what config.json, generation_config.json, the tokenizer and the template say."""
    from_config = _ids(evidence.language.get("eos_token_id")) or _ids(evidence.root.get("eos_token_id"))
    from_generation = _ids(evidence.json("generation_config.json").get("eos_token_id"))
    from_tokenizer = _ids(facts.token_id("eos"))
    turn = template.end_of_turn(facts.ids) if template else None
    from_template = {facts.ids[turn]} if turn else set()
    named = {
        evidence.root.where: from_config,
        "generation_config.json": from_generation,
        f"{facts.source}:eos": from_tokenizer,
        template.source if template else "chat template": from_template,
    }
    union = sorted(set().union(*named.values()))
    source = " + ".join(name for name, ids in named.items() if ids) or "nobody says"
    findings = _conflicts(evidence, facts, from_config, from_generation) + _turn(template, turn, from_template, named)
    said = {name: tuple(sorted(ids)) for name, ids in named.items() if ids}
    return StopTokens(tuple(union), source, tuple(findings), said)


def _ids(value: JsonValue) -> set[int]:
    items = value if isinstance(value, list) else [value]
    return {item for item in items if type(item) is int and item >= 0}


def _conflicts(
    evidence: Evidence, facts: TokenizerFacts, from_config: set[int], from_generation: set[int]
) -> list[Finding]:
    found = []
    if from_config and from_generation and not from_config <= from_generation:
        message = (
            f"eos_token_id is {_listed(from_config)} in {evidence.root.where} "
            f"and {_listed(from_generation)} in generation_config.json."
        )
        hint = "Both sets stop the answer; vLLM reads generation_config.json unless --generation-config vllm."
        source = f"{evidence.root.where}:eos_token_id and generation_config.json:eos_token_id"
        found.append(
            Finding(code="tokenizer.eos-conflict", level=Level.WARNING, message=message, hint=hint, source=source)
        )
    eos = facts.token_id("eos")
    said = from_config | from_generation
    if eos is not None and said and eos not in said:
        message = f"The tokenizer's eos token is {eos}, and the model's configs say {_listed(said)}."
        source = f"{facts.source} and {evidence.root.where}:eos_token_id"
        found.append(Finding(code="tokenizer.eos-tokenizer", level=Level.WARNING, message=message, source=source))
    return found


def _turn(template: ChatTemplate | None, turn: str | None, ids: set[int], named: dict[str, set[int]]) -> list[Finding]:
    """A template that closes turns with a token that nobody stops at makes answers run on."""
    others = set().union(*(found for name, found in named.items() if template is None or name != template.source))
    if template is None or turn is None or not others or ids <= others:
        return []
    message = f"The chat template closes a turn with {turn!r} ({_listed(ids)}), and no config stops there."
    hint = "Answers would run on: the id belongs into generation_config.json or into every request's stop_token_ids."
    source = template.source
    return [Finding(code="tokenizer.turn-not-stop", level=Level.WARNING, message=message, hint=hint, source=source)]


def _listed(ids: set[int]) -> str:
    return ", ".join(map(str, sorted(ids)))
