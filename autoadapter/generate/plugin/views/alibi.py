"""ALiBi in rendered code: the function that computes the slopes."""

from dataclasses import dataclass

from autoadapter.artifacts.decoder import Alibi
from autoadapter.generate.plugin.expressions import expression


@dataclass(frozen=True)
class AlibiView:
    """Which slopes a class uses."""

    slopes: str
    """`power_of_two` or `mpt`."""
    bias_max: str
    scaled: bool

    @classmethod
    def of(cls, alibi: Alibi) -> "AlibiView":
        """The view of a spec's ALiBi."""
        bias_max = expression(alibi.bias_max) if alibi.bias_max else "8"
        return cls(alibi.slopes, bias_max, alibi.scaled)

    @property
    def call(self) -> str:
        """The slopes of all heads."""
        more = f", {self.bias_max}" if self.slopes == "mpt" else ""
        return f"get_alibi_slopes(self.total_num_heads{more})" + (" * self.scaling" if self.scaled else "")
