"""Puts fitted parts together, with what is known about them."""

from dataclasses import replace
from typing import Any, TypeVar

from autoadapter.artifacts.decoder import Evidence, Value
from autoadapter.probe.workers.fit.fitted import Fitted

Whole = TypeVar("Whole")


def below(whole: Fitted[Whole], field: str, part: Fitted[Any], *, targets: str) -> Fitted[Whole]:
    """The whole with a part in one of its fields; `targets` goes before the names that the part's parameters have."""
    prefix = f"{targets}." if targets else ""
    uses = tuple(replace(use, targets=tuple(prefix + target for target in use.targets)) for use in part.uses)
    evidence = tuple(item.model_copy(update={"path": f"{field}.{item.path}"}) for item in part.evidence)
    return Fitted(
        whole.value.model_copy(update={field: part.value}),
        max(whole.error, part.error),
        (*whole.evidence, *evidence),
        (*whole.uses, *uses),
    )


def scale_evidence(scale: Value | None, error: float, path: str = "scale") -> tuple[Evidence, ...]:
    """Why a scale is what it is: without it the part is off by as much."""
    if scale is None:
        return ()
    return (
        Evidence(
            path=path,
            value=scale.model_dump(mode="json"),
            max_error=error,
            runner_up=Value(number=1.0).model_dump(mode="json"),
            runner_up_error=abs(1 - 1 / float(scale.number)),
        ),
    )
