"""One architecture on one route: clone, then what the route needs, then the proof."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.conformance.record import Attempt, Route, Status
from autoadapter.engine.forks import JobEnd
from autoadapter.errors import AutoadapterError
from autoadapter.generate.plugin import render_plugin
from autoadapter.verify.proof import Claim, ModelImpl, ProofResult, ProofStatus, Servers, prove_on

SUBJECT = "autoadapter.conformance.workers.subject"
REFERENCE_MODULES = (SUBJECT,)
STATUS = {
    ProofStatus.PROVEN: Status.PROVEN,
    ProofStatus.WRONG: Status.WRONG,
    ProofStatus.FAILED: Status.REFUSED,
    ProofStatus.NOT_RUN: Status.NOT_RUN,
}
IMPLEMENTATION: dict[Route, ModelImpl] = {"native": "vllm", "transformers": "transformers", "generated": "vllm"}
LONGEST_REASON = 400
GAPS = (LookupError, TypeError, ValueError, AttributeError, AssertionError, TemplateError)
"""A gap of the renderer is the result of one architecture, not the end of a sweep."""


@dataclass(frozen=True)
class Clone:
    """A tiny checkpoint and the config that it stands for."""

    folder: Path
    config: dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    """Why there is no clone."""

    reason: str


def make_clone(servers: Servers, architecture: str, folder: Path, seed: int = 0) -> Clone | Refusal:
    """The tiny checkpoint of an architecture."""
    request = {"architecture": architecture, "folder": str(folder), "seed": seed}
    made = servers.reference(f"{SUBJECT}:clone", request, log=f"{architecture}.clone.log")
    if made.result is None:
        return Refusal(f"no tiny clone: {made.error}")
    if not made.result["causal"]:
        return Refusal("not causal: a token's logits depend on later tokens")
    return Clone(folder, made.result["config"])


def attempt(servers: Servers, clone: Clone, route: Route, architecture: str, plugins: Path) -> Attempt:
    """Try one route.

    Args:
        servers: warm.
        clone: of the architecture.
        route: which.
        architecture: for logs and the plugin's folder.
        plugins: where rendered code goes, a folder an architecture.
    """
    began = time.monotonic()
    if route == "generated":
        found = _generated(servers, clone, architecture, plugins / architecture)
    else:
        found = _proved(route, prove_on(servers, Claim(clone.folder, IMPLEMENTATION[route])))
    return found.model_copy(update={"seconds": round(time.monotonic() - began, 2)})


def _generated(servers: Servers, clone: Clone, architecture: str, plugin: Path) -> Attempt:
    fitted = servers.reference(f"{SUBJECT}:fit", {"folder": str(clone.folder)}, log=f"{architecture}.fit.log")
    if fitted.result is None or "refused" in fitted.result:
        return refused("generated", "fit", _why_not_fitted(fitted))
    spec = DecoderSpec.model_validate(fitted.result["spec"])
    return render_and_prove(servers, clone, spec, plugin)


def render_and_prove(
    servers: Servers, clone: Clone, spec: DecoderSpec, plugin: Path, *, reference: Path | None = None
) -> Attempt:
    """Write the code of a spec into `plugin` and prove it on the clone.

    Args:
        servers: warm.
        clone: what the engine serves.
        spec: what its code is to compute.
        plugin: where the code goes.
        reference: what transformers computes; None: the clone.
    """
    opaque = is_opaque(spec)
    told = {"opaque": opaque, "replay_error": spec.replay_error}
    try:
        render_plugin(spec, plugin, vllm_version=servers.engine_target.version, config=clone.config)
    except AutoadapterError as error:
        return refused("generated", "render", str(error)).model_copy(update=told)
    except GAPS as error:
        return refused("generated", "render", f"{type(error).__name__}: {error}").model_copy(update=told)
    claim = Claim(clone.folder, "vllm", plugin, carries_over=opaque, reference=reference)
    return _proved("generated", prove_on(servers, claim)).model_copy(update=told)


def is_opaque(spec: DecoderSpec) -> bool:
    """Whether a block is carried over as the reference has it."""
    return any(branch.mixer.mixer == "opaque" for kind in spec.kinds for branch in kind.branches)


def refused(route: Route, stage: Any, reason: str) -> Attempt:
    """An attempt that came to no answer."""
    return Attempt(route=route, status=Status.REFUSED, stage=stage, reason=reason[:LONGEST_REASON])


def _why_not_fitted(fitted: JobEnd) -> str:
    if fitted.result is not None:
        return str(fitted.result["refused"])
    error = fitted.error
    where = f" ({error.frames[-1].rpartition('/')[2]})" if error and error.frames else ""
    return f"probing failed: {error}{where}"


def _proved(route: Route, proof: ProofResult) -> Attempt:
    return Attempt(
        route=route,
        status=STATUS[proof.status],
        reason=proof.reason[:LONGEST_REASON],
        stage="" if proof.status is ProofStatus.PROVEN else "prove",
        max_abs_logprob_diff=proof.max_abs_logprob_diff,
        answered_by=proof.answered_by,
        spread=proof.spread,
    )
