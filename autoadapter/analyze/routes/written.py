"""Whether AutoAdapter writes the model's code, and how sure that is before the model was probed."""

from dataclasses import replace

from autoadapter.analyze.routes.judgement import Judgement, Outcome, decision, not_served
from autoadapter.analyze.routes.subject import Subject
from autoadapter.artifacts import Route
from autoadapter.artifacts.model_profile import RouteDecision
from autoadapter.engine.registry import Registry, transformers_classes, written_code

UNTRUSTED = (
    "its own code (auto_map) must run once, on a tiny clone without network, for AutoAdapter to write the vLLM model"
)
TRIES = "`autoadapter generate` fits the model on a tiny clone and writes its vLLM model code, if it can explain it."
NOTHING_TO_RUN = "transformers has no class of that name, and the checkpoint brings no code (auto_map) to run"


def generated(subject: Subject, considered: tuple[RouteDecision, ...], absent: str) -> Judgement | None:
    """The verdict by route `generated`, where its code is proven or the model's own may be run to fit it.

    Args:
        subject: the model and the engine.
        considered: the routes before this one.
        absent: why those were not taken, in a sentence.
    """
    name, table = subject.name, written_code()
    if name in table.proven:
        reason = f"{absent} AutoAdapter writes its vLLM model code: {_proof(name)}."
        return _taken("will_start", reason, table.source, considered)
    if not _own_code(subject):
        return None
    if not subject.target.trusts_code:
        hint = f"{subject.again} --trust-remote-code"
        judged = not_served("unprovable_here", f"{absent} {name}: {UNTRUSTED}.", _config(subject), considered)
        return replace(judged, hint=hint)
    return _taken("unprovable_here", f"{absent} {TRIES}", _config(subject), considered)


def not_written(subject: Subject) -> RouteDecision:
    """Why AutoAdapter writes no code for it unasked."""
    table = written_code()
    refused = table.refused.get(subject.name)
    if refused is not None:
        return decision(Route.GENERATED, f"AutoAdapter cannot write its model code: {refused}.", table.source)
    if not _runs(subject):
        return decision(Route.GENERATED, f"There is nothing to fit model code to: {NOTHING_TO_RUN}.", _config(subject))
    return decision(Route.GENERATED, f"No model code has been proven for it. --route generated: {TRIES}", table.source)


def if_asked(subject: Subject) -> RouteDecision:
    """What `--route generated` would do where another route is taken."""
    if subject.name in written_code().refused or not _runs(subject):
        return not_written(subject)
    proof = _proof(subject.name) if subject.name in written_code().proven else "nothing has been proven yet"
    return decision(
        Route.GENERATED, f"Not needed. --route generated would write model code: {proof}.", _config(subject)
    )


def asked(subject: Subject, registry: Registry) -> Judgement:
    """The verdict under `--route generated`."""
    why = "Route `generated` was asked for."
    found = generated(subject, (), why)
    if found is not None:
        return found
    if subject.name in written_code().refused or not _runs(subject):
        refusal = not_written(subject)
        return not_served("will_not_start", refusal.reason, refusal.source or registry.source)
    return _taken("unprovable_here", f"{why} {TRIES}", _config(subject), ())


def _taken(outcome: Outcome, reason: str, source: str, considered: tuple[RouteDecision, ...]) -> Judgement:
    last = decision(Route.GENERATED, reason, source, taken=True)
    return Judgement(outcome, last.route, reason, (*considered, last))


def _proof(name: str) -> str:
    table = written_code()
    return (
        f"proven on vLLM {table.vllm_version} with a tiny clone, every log-probability within {table.proven[name]:.1e} "
        "of the reference"
    )


def _runs(subject: Subject) -> bool:
    return subject.name in transformers_classes() or _own_code(subject)


def _own_code(subject: Subject) -> bool:
    return bool(subject.evidence.root.get("auto_map"))


def _config(subject: Subject) -> str:
    return subject.evidence.root.source("auto_map" if _own_code(subject) else "architectures")
