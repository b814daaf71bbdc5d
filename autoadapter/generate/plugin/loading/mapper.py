"""vLLM's `WeightsMapper`, small enough to check here that rules map every name as they should."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Shard = str | int | None


@dataclass(frozen=True)
class Mapper:
    """Rules in the order in which vLLM applies them; a new part of None drops the tensor."""

    regex: Mapping[str, str] = field(default_factory=dict)
    substr: Mapping[str, str | None] = field(default_factory=dict)
    stacked: Mapping[str, tuple[str, Shard]] = field(default_factory=dict)
    prefix: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def has_rules(self) -> bool:
        """Whether any name changes."""
        return bool(self.regex or self.substr or self.stacked or self.prefix)

    def map(self, name: str) -> tuple[str, Shard] | None:
        """The parameter and the part of it that a checkpoint's tensor goes to; None where it is dropped."""
        for pattern, template in self.regex.items():
            name = re.sub(pattern, template, name)
        for old, new in self.substr.items():
            if old in name:
                if new is None:
                    return None
                name = name.replace(old, new, 1)
        shard: Shard = None
        for old, (fused, part) in self.stacked.items():
            if old in name:
                name, shard = name.replace(old, fused, 1), part
        for old, new in self.prefix.items():
            if name.startswith(old):
                if new is None:
                    return None
                name = name.replace(old, new, 1)
        return name, shard
