"""Numbers of a decoder, each with the config key that holds it, so that rendered code reads `config.<key>`."""

import math
from collections.abc import Callable
from typing import Literal

from autoadapter.artifacts.base import Frozen

Form = Literal["identity", "reciprocal", "square_root", "inverse_square_root"]
"""How the number follows from the key's value v: v, 1/v, √v, 1/√v."""


FORMS: dict[Form, Callable[[float], float]] = {
    "identity": lambda v: v,
    "reciprocal": lambda v: 1 / v,
    "square_root": math.sqrt,
    "inverse_square_root": lambda v: 1 / math.sqrt(v),
}


class Value(Frozen):
    """A number as fitted on the tiny clone, and where the config states it.

    `Value(number=0.0884, key="head_dim", form="inverse_square_root")` renders as `config.head_dim**-0.5`;
    without a key the number itself is rendered.
    """

    number: float | int
    key: str | None = None
    """Dotted path in the config: `hidden_size`, `attn_config.clip_qkv`."""
    form: Form = "identity"
    factor: float = 1.0
    """The number is `factor` × form(key): the intermediate size `4 * hidden_size` has 4."""

    def under(self, stated: float) -> float | int:
        """The number that another config of the same architecture gives, where `stated` is that config's value."""
        result = self.factor * FORMS[self.form](stated)
        return round(result) if isinstance(self.number, int) else result
