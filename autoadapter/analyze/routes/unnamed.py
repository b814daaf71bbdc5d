"""A config.json without architectures: vLLM fills in the bare class of the model type, and what comes of it.

Source: vLLM 0.32 `transformers_utils/config.py:get_config`, `config/model.py:_get_default_runner_type`; tried there
with eight model types.
"""

import json
import shlex
from dataclasses import replace

from autoadapter.analyze.kv_cache import HEADS
from autoadapter.analyze.layers import LAYERS
from autoadapter.analyze.routes.judgement import Judgement, Outcome, not_served, served
from autoadapter.analyze.routes.subject import Subject
from autoadapter.artifacts import Route
from autoadapter.engine.registry import Registry, bare_class, generating_class

WHOLE_CONFIG = 'Take the whole config.json from where the model came from; vLLM needs its "architectures"'
GENERATE = {"LlamaModel", "MistralModel", "Gemma2Model", "Qwen2Model"}
"""Bare names that vLLM's registry gives to the class that generates text."""
TASKS = ("ForConditionalGeneration", "ForCausalLM", "LMHeadModel")


def unnamed(subject: Subject, registry: Registry) -> Judgement | None:
    """The verdict of a model that names no architecture; None where it names one."""
    if subject.name:
        return None
    root = subject.evidence.root
    model_type, source = root.text("model_type") or "", root.source("architectures")
    family, bare = family_class(model_type, registry), bare_class(model_type)
    reason = f"{root.where} names no architectures{_beside(subject)}; "
    if subject.evidence.language.stated.found(*LAYERS, *HEADS) is None:
        reason += "vLLM cannot tell what to load without --hf-overrides. "
        reason += "Nor does it state layers or heads: it is no whole config."
        return _hinted("will_not_start", reason, source, WHOLE_CONFIG)
    hint = _serve(subject, family) if family else WHOLE_CONFIG
    if bare is None:
        reason += f"vLLM has none to fill in for model_type {model_type!r}, and stops."
        return _hinted("will_not_start", reason, source, hint)
    reason += f"vLLM fills in {bare}, the bare class of model_type {model_type!r}, "
    if bare in GENERATE and bare in registry.pooling:
        reason += "which its registry serves as a model that generates text."
        return replace(served(Route.NATIVE, reason, registry.line(bare)), hint=hint)
    reason += "and serves it as a pooling model that writes no text."
    return _hinted("not_generative" if family else "will_not_start", reason, source, hint)


def _hinted(outcome: Outcome, reason: str, source: str, hint: str) -> Judgement:
    return replace(not_served(outcome, reason, source), hint=hint)


def _beside(subject: Subject) -> str:
    language = subject.evidence.language
    inner = language.texts("architectures") if language is not subject.evidence.root else None
    return f" (its language model: {inner[0]})" if inner else ""


def family_class(model_type: str, registry: Registry) -> str | None:
    """The class of a family that generates text in this vLLM: transformers' own, else one that is spelt like the type.

    Never the class of the inner language model: it would leave the rest of the weights unread.
    """
    known = generating_class(model_type)
    if known in registry.served:
        return known
    spelt = known and registry.spelt_otherwise(known)
    if spelt:
        return spelt
    folded = model_type.replace("_", "").replace("-", "").casefold()
    names = {(folded + task).casefold() for task in TASKS} if folded else set()
    return next((name for name in sorted(registry.served) if name.casefold() in names), None)


def _serve(subject: Subject, family: str) -> str:
    """The command that names the class."""
    overrides = shlex.quote(json.dumps({"architectures": [family]}))
    return f"vllm serve {subject.location} --hf-overrides {overrides}"
