"""Answers that follow from one large object and a few small arguments, found once for as long as the object lives.

A config is asked the same for every layer, and a profile for every GPU of the catalogue.
"""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import finalize

Owner = TypeVar("Owner")
Rest = ParamSpec("Rest")
Answer = TypeVar("Answer")
MOST_ANSWERS = 128
"""Of one function for one object; the oldest goes first."""


def once_each(
    function: Callable[Concatenate[Owner, Rest], Answer],
) -> Callable[Concatenate[Owner, Rest], Answer]:
    """Keep what a function answers, by the identity of its first argument and the value of the others.

    The first argument never changes and is too large to be hashed each time: an artifact, a config. The others are
    hashable. An answer must not hold the owner, which would then live for ever; one that is raised is not kept.
    """
    kept: dict[int, dict[Hashable, Answer]] = {}

    @wraps(function)
    def ask(owner: Owner, /, *rest: Rest.args, **named: Rest.kwargs) -> Answer:
        answers = kept.get(id(owner))
        if answers is None:
            answers = kept[id(owner)] = {}
            finalize(owner, kept.pop, id(owner), None).atexit = False
        key = (rest, *named.items())
        if key not in answers:
            answer = function(owner, *rest, **named)
            if len(answers) >= MOST_ANSWERS:
                answers.pop(next(iter(answers)))
            answers[key] = answer
        return answers[key]

    return ask
