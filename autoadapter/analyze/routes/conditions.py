"""Whether a row of data speaks of a model."""

import re
from collections.abc import Callable

from pydantic import JsonValue

from autoadapter.analyze.routes.subject import Subject
from autoadapter.engine.registry import Condition
from autoadapter.engine.versions import within

TOKENIZER_CONFIG = "tokenizer_config.json"
LEADING_RELEASE = re.compile(r"\d{1,9}\.\d{1,9}(\.\d{1,9})?")
Check = Callable[[Condition, Subject], bool]


def holds(when: Condition, subject: Subject) -> bool:
    """All conditions that are stated hold; cheap ones are asked first."""
    return all(check(when, subject) for check in CHECKS)


def _target(when: Condition, subject: Subject) -> bool:
    target = subject.target
    return (
        within(target.vllm_version, when.since, when.until)
        and _one_of(target.platform, when.platforms)
        and _one_of(target.served_dtype, when.served_dtypes)
    )


def _names(when: Condition, subject: Subject) -> bool:
    types = subject.model_types
    return (
        _one_of(subject.name, when.architectures)
        and (not when.model_types or not types.isdisjoint(when.model_types))
        and types.isdisjoint(when.not_model_types)
    )


def _traits(when: Condition, subject: Subject) -> bool:
    traits = subject.traits
    return (
        when.state in (None, traits.state is not None)
        and _one_of(traits.state.kind if traits.state else None, when.state_kinds)
        and when.tied in (None, traits.tied)
        and _one_of(traits.quantization.method if traits.quantization else None, when.quantizations)
    )


def _keys(when: Condition, subject: Subject) -> bool:
    return (
        (not when.keys or any(_said(subject, key) is not None for key in when.keys))
        and all(_said(subject, key) is None for key in when.missing)
        and all(_differs(subject, key, value) for key, value in when.other_than.items())
        and all(_differs(subject, key, _said(subject, other)) for key, other in when.unequal.items())
        and (not when.several or any(_uneven(_said(subject, key)) for key in when.several))
    )


def _code(when: Condition, subject: Subject) -> bool:
    return when.remote_code in (None, bool(subject.evidence.root.get("auto_map")))


def _files(when: Condition, subject: Subject) -> bool:
    if when.tokenizer_classes:
        stated = subject.evidence.json(TOKENIZER_CONFIG).get("tokenizer_class")
        if stated not in when.tokenizer_classes:
            return False
    if when.saved_since is None and when.saved_until is None:
        return True
    saved = LEADING_RELEASE.match(subject.evidence.root.text("transformers_version") or "")
    return saved is not None and within(saved[0], when.saved_since, when.saved_until)


CHECKS: tuple[Check, ...] = (_target, _names, _traits, _keys, _code, _files)


def _one_of(value: str | None, allowed: tuple[str, ...]) -> bool:
    return not allowed or value in allowed


def _said(subject: Subject, key: str) -> JsonValue:
    """The language model's word before the wrapper's."""
    found = subject.evidence.language.get(key)
    return subject.evidence.root.get(key) if found is None else found


def _differs(subject: Subject, key: str, other: JsonValue) -> bool:
    value = _said(subject, key)
    return value is not None and other is not None and value != other


def _uneven(value: JsonValue) -> bool:
    """A list whose entries are not all alike."""
    return isinstance(value, list) and any(item != value[0] for item in value)
