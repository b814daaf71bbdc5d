"""A verdict in the making, and how its parts are said."""

from dataclasses import dataclass
from typing import Literal

from autoadapter.artifacts import Route
from autoadapter.artifacts.model_profile import RouteDecision

Outcome = Literal["will_start", "starts_but_wrong", "will_not_start", "not_generative", "unprovable_here"]


@dataclass(frozen=True)
class Judgement:
    """An outcome with its reason, the routes that were considered, and the line that proves it."""

    outcome: Outcome
    route: Route
    reason: str
    decisions: tuple[RouteDecision, ...]
    hint: str | None = None
    """What to do where nothing is served."""
    version_unknown: bool = False


def decision(route: Route, reason: str, source: str, *, taken: bool = False) -> RouteDecision:
    """One route and why it was or was not taken."""
    return RouteDecision(route=route, taken=taken, reason=reason, source=source)


def served(route: Route, reason: str, source: str, considered: tuple[RouteDecision, ...] = ()) -> Judgement:
    """The model will start by a route."""
    return Judgement("will_start", route, reason, (*considered, decision(route, reason, source, taken=True)))


def not_served(outcome: Outcome, reason: str, source: str, considered: tuple[RouteDecision, ...] = ()) -> Judgement:
    """No route is taken; the last decision carries the proof."""
    last = decision(Route.UNSUPPORTED, reason, source, taken=True)
    return Judgement(outcome, Route.UNSUPPORTED, reason, (*considered, last))
