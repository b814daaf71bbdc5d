"""Will it run on the target vLLM, and by which route: predicted from names and headers, proved later by `test`."""

from dataclasses import dataclass
from typing import Literal

from autoadapter.analyze.gguf_config import convertible, gguf_architecture
from autoadapter.analyze.reading import Evidence
from autoadapter.artifacts import Finding, Level, Route, Verdict
from autoadapter.artifacts.model_profile import AttentionTraits, QuantizationTraits, RouteDecision, StateTraits
from autoadapter.engine.registry import (
    CpuGap,
    Registry,
    aliases,
    cpu_gaps,
    cpu_head_sizes,
    measured_fallbacks,
    registry_for,
)

Outcome = Literal["will_start", "starts_but_wrong", "will_not_start", "unprovable_here"]
NO_GENERATOR = "this AutoAdapter does not render model code yet"
NOT_GENERATIVE = (
    "Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM", "ForQuestionAnswering",
    "ForMultipleChoice", "ForPreTraining", "ForImageClassification", "ForAudioClassification", "ForRewardModel",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """The engine that the verdict speaks of."""

    vllm_version: str
    platform: Literal["cpu", "cuda"]
    served_dtype: str


@dataclass(frozen=True)
class Traits:
    """What the verdict needs of the axes."""

    attention: AttentionTraits
    state: StateTraits | None
    quantization: QuantizationTraits | None


@dataclass(frozen=True)
class _Judgement:
    outcome: Outcome
    route: Route
    reason: str
    decisions: tuple[RouteDecision, ...] = ()


def judge(evidence: Evidence, traits: Traits, target: Target) -> tuple[Verdict, tuple[Finding, ...]]:
    """The verdict, and a finding when the registry is of another version than the target."""
    match = registry_for(target.vllm_version)
    judgement = _refusal(evidence, match.registry) or _by_route(evidence, match.registry, target)
    gap = _cpu_gap(evidence, traits, target) if judgement.route is not Route.UNSUPPORTED else None
    if gap is not None:
        judgement = _Judgement("unprovable_here", judgement.route, gap, judgement.decisions)
    verdict = Verdict(
        outcome=judgement.outcome,
        route=judgement.route,
        vllm_version=target.vllm_version,
        reason=judgement.reason,
        decisions=judgement.decisions,
    )
    if match.note is None:
        return verdict, ()
    note = Finding(code="verdict.version", level=Level.WARNING, message=match.note, source=match.registry.source)
    return verdict, (note,)


def _refusal(evidence: Evidence, registry: Registry) -> _Judgement | None:
    """Models that no route can serve here, with the reason in a sentence."""
    name = evidence.architecture
    reason = None
    if evidence.checkpoint.format == "gguf" and evidence.checkpoint.metadata and not convertible(evidence.checkpoint):
        kind = gguf_architecture(evidence.checkpoint.metadata)
        reason = f"transformers cannot turn the GGUF architecture {kind!r} into a checkpoint that vLLM serves."
    elif not name:
        inner = (evidence.language.texts("architectures") or ("none",))[0]
        reason = (
            f"{evidence.root.where} names no architectures (its language model: {inner}); "
            "vLLM cannot tell what to load without --hf-overrides."
        )
    elif evidence.root.flag("is_encoder_decoder"):
        reason = f"{name} is an encoder-decoder model; AutoAdapter serves decoders that generate text."
    elif name in registry.speculative and name not in registry.text_generation:
        reason = f"{name} is a draft head for speculative decoding, not a model that answers alone."
    elif name in registry.pooling or _only_encodes(name, registry):
        reason = f"{name} does not generate text (it encodes, classifies or scores); AutoAdapter serves models that do."
    return (
        None
        if reason is None
        else _Judgement("will_not_start", Route.UNSUPPORTED, reason, _none_taken(reason, evidence))
    )


def _only_encodes(name: str, registry: Registry) -> bool:
    known = _served(registry) | set(registry.dropped)
    return name not in known and "LMHead" not in name and name.endswith(NOT_GENERATIVE)


def _served(registry: Registry) -> frozenset[str]:
    return registry.text_generation | registry.multimodal | registry.transformers_backend


def _none_taken(reason: str, evidence: Evidence) -> tuple[RouteDecision, ...]:
    return (_decision(Route.UNSUPPORTED, reason, evidence.root.source("architectures"), taken=True),)


def _decision(route: Route, reason: str, source: str, *, taken: bool = False) -> RouteDecision:
    return RouteDecision(route=route, taken=taken, reason=reason, source=source)


def _by_route(evidence: Evidence, registry: Registry, target: Target) -> _Judgement:
    """The routes in the order of design: native, alias, transformers, shim, generated."""
    name, version = evidence.architecture, target.vllm_version
    native = _native(name, registry, version)
    if native.taken:
        return _Judgement("will_start", Route.NATIVE, native.reason, (native,))
    considered = (native, _alias(name))
    if name in registry.transformers_backend:
        reason = f"vLLM {registry.vllm_version} serves {name} through its Transformers modeling backend."
        taken = _decision(Route.TRANSFORMERS, reason, registry.source, taken=True)
        return _Judgement("will_start", Route.TRANSFORMERS, reason, (*considered, taken))
    return _fallback(evidence, considered, registry)


def _native(name: str, registry: Registry, version: str) -> RouteDecision:
    last = registry.served_until(name, version)
    if last is not None:
        return _decision(Route.NATIVE, f"vLLM served {name} until {last} and dropped it after.", registry.source)
    if name in registry.text_generation | registry.multimodal or name in registry.dropped:
        reason = f"vLLM {version} serves {name} with a model class of its own."
        return _decision(Route.NATIVE, reason, registry.source, taken=True)
    return _decision(Route.NATIVE, f"{name} is not in the registry of vLLM {registry.vllm_version}.", registry.source)


def _alias(name: str) -> RouteDecision:
    alias = aliases().get(name)
    if alias is None:
        return _decision(
            Route.ALIAS, "No native class is known to compute the same under another name.", "aliases.yaml"
        )
    reason = f"vLLM serves the family as {alias.served_as} ({alias.why}), but {NO_GENERATOR}."
    return _decision(Route.ALIAS, reason, alias.source)


def _fallback(evidence: Evidence, considered: tuple[RouteDecision, ...], registry: Registry) -> _Judgement:
    """Architectures that the registry does not name: vLLM tries the Transformers backend by itself."""
    name = evidence.architecture
    measured = measured_fallbacks().get(name)
    if measured is not None and measured.answer == "right":
        reason = f"vLLM falls back to its Transformers modeling backend for {name}: {measured.why}."
        taken = _decision(Route.TRANSFORMERS, reason, measured.source, taken=True)
        return _Judgement("will_start", Route.TRANSFORMERS, reason, (*considered, taken))
    reason = _why_not_fallback(evidence)
    source = measured.source if measured else registry.source
    rest = tuple(
        _decision(route, f"Needs rendered code: {NO_GENERATOR}.", "AutoAdapter")
        for route in (Route.SHIM, Route.GENERATED)
    )
    decisions = (*considered, _decision(Route.TRANSFORMERS, reason, source), *rest)
    if measured is not None:
        why = f"vLLM starts {name} through its Transformers modeling backend and answers wrongly: {measured.why}."
        return _Judgement("starts_but_wrong", Route.UNSUPPORTED, why, decisions)
    return _Judgement("will_not_start", Route.UNSUPPORTED, _why_unsupported(name, considered, registry), decisions)


def _why_not_fallback(evidence: Evidence) -> str:
    measured = measured_fallbacks().get(evidence.architecture)
    if measured is not None:
        return f"The backend starts and answers wrongly: {measured.why}."
    if evidence.root.get("auto_map"):
        return "The model's code is its own (auto_map); the backend has not been proven with it."
    return (
        "The registry does not name it for the Transformers backend, and no measurement shows that it answers rightly."
    )


def _why_unsupported(name: str, considered: tuple[RouteDecision, ...], registry: Registry) -> str:
    plugin = registry.plugins.get(name)
    if plugin is not None:
        return f"vLLM {registry.vllm_version} does not serve {name} itself; its maintainers point to a plugin: {plugin}"
    native, alias = considered
    if name in aliases():
        return f"{native.reason} {alias.reason}"
    return f"{native.reason} It needs model code that AutoAdapter would generate, and {NO_GENERATOR}."


def _cpu_gap(evidence: Evidence, traits: Traits, target: Target) -> str | None:
    """The first thing that this model needs and a CPU build of vLLM lacks."""
    if target.platform != "cpu":
        return None
    size = traits.attention.head_dim
    if traits.attention.kind in ("mha", "gqa", "mqa", "hybrid") and size not in cpu_head_sizes():
        return f"vLLM's CPU attention has no kernel for heads of {size}; nothing is claimed on this machine."
    gap = next((gap for gap in cpu_gaps() if _applies(gap, evidence, traits, target)), None)
    if gap is None:
        return None
    return f"vLLM has no CPU kernel for {gap.what}; nothing is claimed on this machine ({gap.source})."


def _applies(gap: CpuGap, evidence: Evidence, traits: Traits, target: Target) -> bool:
    """All conditions that the row states hold."""
    state = traits.state.kind if traits.state else None
    method = traits.quantization.method if traits.quantization else None
    checks = (
        not gap.architectures or evidence.architecture in gap.architectures,
        not gap.state_kinds or state in gap.state_kinds,
        not gap.served_dtypes or target.served_dtype in gap.served_dtypes,
        not gap.config_keys or evidence.language.found(*gap.config_keys) is not None,
        not gap.quantizations or method in gap.quantizations,
    )
    return all(checks)
