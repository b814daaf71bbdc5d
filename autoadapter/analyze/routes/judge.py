"""The verdict: refusals first, then the routes in design's order, then what this machine has no kernel for."""

from dataclasses import replace

from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.routes.backend import fallback, forced, if_forced
from autoadapter.analyze.routes.chosen import chosen_architecture
from autoadapter.analyze.routes.conditions import holds
from autoadapter.analyze.routes.issues import version_findings
from autoadapter.analyze.routes.judgement import Judgement, decision
from autoadapter.analyze.routes.refusals import refusal
from autoadapter.analyze.routes.subject import Subject, Target, Traits
from autoadapter.analyze.routes.written import asked, if_asked
from autoadapter.artifacts import Finding, Level, Route, Verdict
from autoadapter.artifacts.model_profile import RouteDecision
from autoadapter.engine.registry import (
    Registry,
    aliases,
    cpu_gaps,
    cpu_head_sizes,
    first_serving,
    known_versions,
    registry_for,
    serving_version,
    transformers_classes,
)
from autoadapter.engine.versions import release

NO_ALIAS = "aliases.yaml names none"
CONVERTED = {"gguf": "GGUF", "pytorch": ".bin"}
"""Formats that `optimize` converts, as people call them."""
OTHER_MODEL = "No known release of vLLM serves it: take a model of an architecture that vLLM's documentation lists"


def judge(evidence: Evidence, traits: Traits, target: Target) -> tuple[Verdict, tuple[Finding, ...]]:
    """The verdict, and what the target's version does to this model.

    Raises:
        UserError: the target's version is none.
    """
    match = registry_for(target.vllm_version)
    chosen = chosen_architecture(evidence, match.registry, forced=target.model_impl == "transformers")
    subject = Subject(evidence, traits, target, chosen)
    judgement = refusal(subject, match.registry) or _by_route(subject, match.registry)
    gap = _cpu_gap(subject) if judgement.route is not Route.UNSUPPORTED else None
    if gap is not None:
        judgement = replace(judgement, outcome="unprovable_here", reason=gap)
    judgement = _of_several(judgement, subject)
    judgement = _hinted(_converted(_of_known_version(judgement, subject, match.registry), subject), subject)
    verdict = Verdict(
        outcome=judgement.outcome,
        route=judgement.route,
        vllm_version=target.vllm_version,
        reason=judgement.reason,
        hint=judgement.hint,
        version_unknown=judgement.version_unknown,
        decisions=judgement.decisions,
    )
    findings = version_findings(subject, match.registry)
    if match.note is None:
        return verdict, findings
    note = Finding(code="verdict.version", level=Level.WARNING, message=match.note, source=match.registry.source)
    return verdict, (note, *findings)


def _of_known_version(judgement: Judgement, subject: Subject, registry: Registry) -> Judgement:
    """No promise for a vLLM older than every table, but for the release that vLLM itself says served the model."""
    version, oldest = subject.target.vllm_version, known_versions()[0]
    is_known = release(version) >= release(oldest)
    named = registry.dropped.get(subject.name)
    if judgement.outcome != "will_start" or is_known or (named and release(named) == release(version)):
        return judgement
    reason = (
        f"vLLM {version} is older than every release that AutoAdapter knows ({oldest} and newer), so whether it serves "
        f"{subject.name} is open; vLLM {oldest} does."
    )
    hint = f"{subject.again} --vllm-version {oldest}"
    return replace(judgement, outcome="unprovable_here", reason=reason, hint=hint, version_unknown=True)


def _of_several(judgement: Judgement, subject: Subject) -> Judgement:
    """Which name was judged, where it is not the first or not as config.json spells it."""
    first = subject.evidence.architecture
    if subject.name == first:
        return judgement
    named = ", ".join(name[:60] for name in (subject.evidence.root.texts("architectures") or ())[:3])
    why = f" config.json names {named}, and vLLM takes {subject.name}: its registry has no {first[:60]}."
    return replace(judgement, reason=judgement.reason + why)


def _converted(judgement: Judgement, subject: Subject) -> Judgement:
    """GGUF and .bin reach the engine as safetensors alone."""
    kind = CONVERTED.get(subject.evidence.checkpoint.format)
    if kind is None or judgement.route is Route.UNSUPPORTED:
        return judgement
    after = f" It is served after `autoadapter optimize` has converted the {kind} weights to safetensors."
    return replace(judgement, reason=judgement.reason + after)


def _hinted(judgement: Judgement, subject: Subject) -> Judgement:
    """What to do about a model that no route serves: a release that does, else another model."""
    if judgement.outcome != "will_not_start" or judgement.hint is not None:
        return judgement
    if subject.target.model_impl == "transformers":
        return replace(judgement, hint="Leave out --engine-arg model-impl=transformers")
    version = serving_version(subject.name, subject.target.vllm_version)
    hint = f"{subject.again} --vllm-version {version}" if version else OTHER_MODEL
    return replace(judgement, hint=hint)


def _by_route(subject: Subject, registry: Registry) -> Judgement:
    """The routes in the order of design: native, alias, transformers, shim, generated."""
    if subject.target.model_impl == "transformers":
        return forced(subject, registry)
    if subject.target.model_impl == "generated":
        return asked(subject, registry)
    native = _native(subject.name, registry, subject.target.vllm_version)
    if native.taken:
        others = (if_forced(subject, registry), if_asked(subject))
        return Judgement("will_start", Route.NATIVE, native.reason, (native, *others))
    alias = _alias(subject.name, registry)
    return fallback(subject, registry, (native, alias), _absent(subject.name, registry, native, alias))


def _native(name: str, registry: Registry, version: str) -> RouteDecision:
    line = registry.line(name)
    last = registry.served_until(name, version)
    if last is not None:
        said = f"vLLM served {name} until {last} and dropped it after. --vllm-version {last} plans for that release."
        return decision(Route.NATIVE, said, line)
    if name in registry.text_generation | registry.multimodal or name in registry.dropped:
        reason = f"vLLM {version} serves {name} with a model class of its own."
        return decision(Route.NATIVE, reason, line, taken=True)
    if name in registry.transformers_backend:
        reason = f"vLLM {registry.vllm_version} has no model class of its own for {name}."
        return decision(Route.NATIVE, reason, line)
    later = first_serving(name, version)
    if later is not None:
        reason = f"vLLM {version} is too old for {name}: it needs vLLM {later.since} or newer."
        source = f'vLLM {later.since} model_executor/models/registry.py: {later.table}["{name}"]'
        return decision(Route.NATIVE, reason, source)
    return decision(Route.NATIVE, f"{name} is not in the registry of vLLM {registry.vllm_version}.", line)


def _alias(name: str, registry: Registry) -> RouteDecision:
    row, twin = aliases().get(name), registry.spelt_otherwise(name)
    related = None if name in transformers_classes() else registry.related(name)
    if twin is not None:
        why, other, source = "transformers and vLLM spell the name differently", twin, registry.line(twin)
    elif row is not None and row.served_as in registry.served:
        why, other, source = row.why, row.served_as, row.source
    elif related is not None:
        why, other, source = "the names differ by a word; the models may, too", related, registry.line(related)
    else:
        return decision(Route.ALIAS, "No native class is known to compute the same under another name.", NO_ALIAS)
    override = f"""--hf-overrides '{{"architectures": ["{other}"]}}'"""
    reason = f"vLLM serves the family as {other} ({why}); {override} would name it so, unproven."
    return decision(Route.ALIAS, reason, source)


def _absent(name: str, registry: Registry, native: RouteDecision, alias: RouteDecision) -> str:
    """Why neither a native class nor another name of it serves the model."""
    plugin = registry.plugins.get(name)
    if plugin is not None:
        return f"vLLM {registry.vllm_version} does not serve {name} itself; its maintainers point to a plugin: {plugin}"
    return native.reason if alias.source == NO_ALIAS else f"{native.reason} {alias.reason}"


def _cpu_gap(subject: Subject) -> str | None:
    """The first thing that this model needs and a CPU build of vLLM lacks."""
    if subject.target.platform != "cpu":
        return None
    attention = subject.traits.attention
    if attention.kind in ("mha", "gqa", "mqa", "hybrid") and attention.head_dim not in cpu_head_sizes():
        return (
            f"vLLM's CPU attention has no kernel for heads of {attention.head_dim}; nothing is claimed on this machine."
        )
    gap = next((gap for gap in cpu_gaps() if holds(gap.when, subject)), None)
    if gap is None:
        return None
    return f"vLLM has no CPU kernel for {gap.what}; nothing is claimed on this machine ({gap.source})."
