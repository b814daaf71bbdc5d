"""Answers that are found once for each object."""

import gc
import weakref

import pytest

from autoadapter.once import MOST_ANSWERS, once_each


class Owner:
    """Equal to every other, which must not matter."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def test_each_object_is_asked_once_for_each_argument() -> None:
    asked: list[tuple[Owner, int]] = []

    @once_each
    def answer(owner: Owner, number: int) -> int:
        asked.append((owner, number))
        return number + 1

    one, other = Owner(), Owner()
    assert [answer(one, 1), answer(one, 1), answer(one, 2), answer(other, 1)] == [2, 2, 3, 2]
    assert [(owner is one, number) for owner, number in asked] == [(True, 1), (True, 2), (False, 1)]


def test_an_error_is_raised_again() -> None:
    @once_each
    def answer(owner: Owner) -> int:
        raise ValueError

    one = Owner()
    for _ in range(2):
        with pytest.raises(ValueError):
            answer(one)


def test_answers_go_with_their_owner() -> None:
    class Answer:
        pass

    @once_each
    def answer(owner: Owner, number: int) -> Answer:
        return Answer()

    one = Owner()
    watched = weakref.ref(answer(one, 1))
    assert watched() is answer(one, 1)
    del one
    gc.collect()
    assert watched() is None


def test_the_answers_of_one_object_are_bounded() -> None:
    asked: list[int] = []

    @once_each
    def answer(owner: Owner, number: int) -> int:
        asked.append(number)
        return number

    one = Owner()
    for number in (*range(MOST_ANSWERS + 1), MOST_ANSWERS, 0):
        assert answer(one, number) == number
    assert asked == [*range(MOST_ANSWERS + 1), 0]
