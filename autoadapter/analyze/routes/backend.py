"""What vLLM's Transformers modeling backend would make of a model, forced or as vLLM's own fallback."""

from typing import Literal, NamedTuple

from autoadapter.analyze.routes.conditions import holds
from autoadapter.analyze.routes.judgement import Judgement, decision, not_served, served
from autoadapter.analyze.routes.subject import Subject
from autoadapter.analyze.routes.written import generated, not_written
from autoadapter.artifacts import Route
from autoadapter.artifacts.model_profile import RouteDecision
from autoadapter.engine.registry import BackendSignal, Registry, backend_signals, transformers_classes
from autoadapter.engine.versions import release

MEASURED_ON = "0.32.0"
"""What `backend.yaml` was measured on."""
UNMEASURED = "no measurement shows that it answers rightly"
OWN_CODE = "the model's code is its own (auto_map), and the backend has not been proven with it"
NO_CLASS = "transformers has no class of that name (known up to 5.19), and the checkpoint brings no code (auto_map)"
BACKEND = "its Transformers modeling backend"
SAYS = {"wrong": "starts and answers wrongly", "fails": "does not start", "unknown": "is unproven"}


class Forecast(NamedTuple):
    """What the backend would answer, why, and where that was seen."""

    answer: Literal["right", "wrong", "fails", "unknown"]
    why: str
    source: str


def forecast(subject: Subject, registry: Registry) -> Forecast:
    """The first signal that fits; else what can be said of a model that nobody measured."""
    root, name = subject.evidence.root, subject.name
    named, own_code = name in registry.transformers_backend, bool(root.get("auto_map"))
    known = named or name in transformers_classes()
    if not known and not own_code:
        return Forecast("fails", NO_CLASS, f"backend.yaml; {root.source('architectures')}")
    signal = next((signal for signal in backend_signals() if holds(signal.when, subject)), None)
    if signal is not None and (signal.answer == "fails" or (known and signal.answer != "unknown")):
        return Forecast(signal.answer, _said(signal, registry), f"backend.yaml, {signal.source}")
    if named:
        return Forecast("right", "vLLM's registry names it for this backend", registry.line(name))
    return Forecast("unknown", UNMEASURED if known else OWN_CODE, "backend.yaml has no measurement")


def _said(signal: BackendSignal, registry: Registry) -> str:
    """Why; a measurement that speaks for a model on another release says which one it was."""
    elsewhere = release(registry.vllm_version)[:2] != release(MEASURED_ON)[:2]
    if signal.answer == "right" and elsewhere:
        return f"{signal.why} (measured on vLLM {MEASURED_ON}, not on this release)"
    return signal.why


def forced(subject: Subject, registry: Registry) -> Judgement:
    """The verdict under `--model-impl transformers`."""
    found, name = forecast(subject, registry), subject.name
    if found.answer == "right":
        return served(Route.TRANSFORMERS, f"vLLM serves {name} through {BACKEND}: {found.why}.", found.source)
    if found.answer == "wrong":
        reason = f"Forced to {BACKEND}, vLLM starts {name} and answers wrongly: {found.why}."
        return not_served("starts_but_wrong", reason, found.source)
    if found.answer == "fails":
        return not_served(
            "will_not_start", f"Forced to {BACKEND}, vLLM does not start {name}: {found.why}.", found.source
        )
    reason = f"Whether {BACKEND} serves {name} cannot be told beforehand: {found.why}."
    taken = decision(Route.TRANSFORMERS, reason, found.source, taken=True)
    return Judgement("unprovable_here", Route.TRANSFORMERS, reason, (taken,))


def if_forced(subject: Subject, registry: Registry) -> RouteDecision:
    """What to expect of the backend where a native class is taken."""
    found = forecast(subject, registry)
    said = {
        "right": "would serve it, too",
        "wrong": "would start and answer wrongly",
        "fails": "would not start",
        "unknown": "is unproven for it",
    }[found.answer]
    reason = f"Not needed. Forced by --model-impl transformers, the backend {said}: {found.why}."
    return decision(Route.TRANSFORMERS, reason, found.source)


def fallback(subject: Subject, registry: Registry, considered: tuple[RouteDecision, ...], absent: str) -> Judgement:
    """Architectures that the registry names for the backend, or not at all: vLLM tries the backend by itself.

    Args:
        subject: the model and the engine.
        registry: of that engine.
        considered: the routes before this one.
        absent: why those were not taken, in a sentence.
    """
    found, name = forecast(subject, registry), subject.name
    if found.answer == "right":
        return _falls_back(name, registry, found, considered)
    tried = decision(Route.TRANSFORMERS, f"The backend {SAYS[found.answer]}: {found.why}.", found.source)
    written = generated(subject, (*considered, tried), _without_code(absent, found))
    if written is not None:
        return written
    routes = (*considered, tried, not_written(subject))
    if found.answer == "wrong":
        reason = f"vLLM starts {name} through {BACKEND} and answers wrongly: {found.why}."
        return not_served("starts_but_wrong", reason, found.source, routes)
    if found.answer == "unknown":
        reason = f"{absent} vLLM would fall back to {BACKEND}, and {found.why}."
        return not_served("unprovable_here", reason, found.source, routes)
    reason = _without_code(absent, found)
    return not_served("will_not_start", reason, registry.line(name), routes)


def _without_code(absent: str, found: Forecast) -> str:
    """What there is without code of AutoAdapter's own."""
    says = {
        "fails": "does not start it",
        "wrong": "answers wrongly",
        "unknown": "is unproven for it",
        "right": "serves it",
    }
    return f"{absent} The Transformers modeling backend {says[found.answer]}: {found.why}."


def _falls_back(name: str, registry: Registry, found: Forecast, considered: tuple[RouteDecision, ...]) -> Judgement:
    version = registry.vllm_version
    if name in registry.transformers_backend:
        reason = f"vLLM {version} serves {name} through {BACKEND}."
        return served(Route.TRANSFORMERS, reason, registry.line(name), considered)
    reason = f"vLLM {version} falls back to {BACKEND} for {name}: {found.why}."
    return served(Route.TRANSFORMERS, reason, found.source, considered)
