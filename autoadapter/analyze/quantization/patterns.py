r"""Regular expressions of a checkpoint, matched without running them: a safe subset, in linear time.

compressed-tensors' `re:` patterns are Python's, and a hostile one takes for ever. Here are only literals, `.`, `\.`,
`\d`, `\w`, character sets, groups with alternatives, and `*`, `+`, `?` behind any of them, with `^` and `$` at the
ends. They become a small automaton whose states are all followed at once (Thompson).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

LONGEST = 500
DEEPEST = 20
Test = Callable[[str], bool]
ESCAPES: dict[str, Test] = {
    "d": str.isdecimal,
    "w": lambda sign: sign.isalnum() or sign == "_",
}
SPECIAL = "\\.^$*+?()[]{}|"


class UnreadableError(Exception):
    """A pattern outside of the subset."""


@dataclass
class _State:
    """Leads to `then` on a sign that passes `test`; without a test to all of `free` at once."""

    test: Test | None = None
    then: int = -1
    free: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Pattern:
    """An automaton; state 0 is the start and state 1 the end."""

    states: tuple[_State, ...]
    whole: bool
    """It ends in `$`, and the name must end there, too."""

    def matches(self, name: str) -> bool:
        """Whether the name begins so, as Python's `re.match` would say."""
        current = self._closure({0})
        for sign in name:
            if 1 in current and not self.whole:
                return True
            states = (self.states[number] for number in current)
            current = self._closure({state.then for state in states if state.test is not None and state.test(sign)})
            if not current:
                return False
        return 1 in current

    def _closure(self, numbers: set[int]) -> set[int]:
        found, waiting = set(numbers), list(numbers)
        while waiting:
            for number in self.states[waiting.pop()].free:
                if number not in found:
                    found.add(number)
                    waiting.append(number)
        return found


def read_pattern(text: str) -> Pattern:
    """The automaton of a pattern.

    Raises:
        UnreadableError: it is too long, or uses what is not in the subset.
    """
    if len(text) > LONGEST:
        raise UnreadableError
    body = text.removeprefix("^")
    whole = body.endswith("$") and not body.endswith("\\$")
    reader = _Reader(body.removesuffix("$") if whole else body)
    reader.read(0, 1)
    return Pattern(tuple(reader.states), whole)


class _Reader:
    """Recursive descent over a pattern; each part is wired between two states."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.depth = text, 0, 0
        self.states = [_State(), _State()]

    def read(self, start: int, end: int) -> None:
        """The whole pattern between two states."""
        self._alternatives(start, end)
        if self.place < len(self.text):
            raise UnreadableError

    def _new(self) -> int:
        self.states.append(_State())
        return len(self.states) - 1

    def _peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def _next(self) -> str:
        sign = self._peek()
        if not sign:
            raise UnreadableError
        self.place += 1
        return sign

    def _alternatives(self, start: int, end: int) -> None:
        self._sequence(start, end)
        while self._peek() == "|":
            self.place += 1
            self._sequence(start, end)

    def _sequence(self, start: int, end: int) -> None:
        current = self._new()
        self.states[start].free.append(current)
        while self._peek() not in ("", "|", ")"):
            current = self._repeated(current)
        self.states[current].free.append(end)

    def _repeated(self, start: int) -> int:
        """One part with its `*`, `+` or `?`; the state behind it."""
        first, last, after = self._new(), self._new(), self._new()
        self._part(first, last)
        sign = self._peek()
        if sign and sign in "*+?":
            self.place += 1
            if self._peek() and self._peek() in "?+":
                raise UnreadableError
        self.states[start].free.append(first)
        self.states[last].free.append(after)
        if sign and sign in "*?":
            self.states[start].free.append(after)
        if sign and sign in "*+":
            self.states[last].free.append(first)
        return after

    def _part(self, start: int, end: int) -> None:
        sign = self._next()
        if sign == "(":
            self._group(start, end)
            return
        self.states[start].test, self.states[start].then = self._test(sign), end

    def _group(self, start: int, end: int) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableError
        if self.text.startswith("?:", self.place):
            self.place += 2
        self._alternatives(start, end)
        if self._next() != ")":
            raise UnreadableError
        self.depth -= 1

    def _test(self, sign: str) -> Test:
        if sign == ".":
            return lambda one: one != "\n"
        if sign == "\\":
            return self._escaped(self._next())
        if sign == "[":
            return self._set()
        if sign in SPECIAL:
            raise UnreadableError
        return lambda one: one == sign

    def _escaped(self, sign: str) -> Test:
        if sign in ESCAPES:
            return ESCAPES[sign]
        if sign.isalnum():
            raise UnreadableError
        return lambda one: one == sign

    def _set(self) -> Test:
        """`[abc]`, `[0-9]`, `[^.]`; no classes inside."""
        inverted = self._peek() == "^"
        self.place += inverted
        if self._peek() == "]":
            raise UnreadableError
        ranges: list[tuple[str, str]] = []
        while (sign := self._next()) != "]":
            low = self._next() if sign == "\\" else sign
            if sign == "\\" and low.isalnum():
                raise UnreadableError
            high = low
            if self._peek() == "-" and self.text[self.place + 1 : self.place + 2] not in ("]", ""):
                self.place += 1
                high = self._next()
                if high < low or high == "\\":
                    raise UnreadableError
            ranges.append((low, high))
        return lambda one: any(low <= one <= high for low, high in ranges) != inverted
