"""What each template may see: one frozen view a template, filled from profile and plan."""

import textwrap
from dataclasses import dataclass
from typing import ClassVar, Self

from autoadapter.artifacts import EngineSetting, EnvSetting, ModelProfile, ServingPlan
from autoadapter.artifacts.serving_plan import SettingValue

COMMENT_WIDTH = 112
BYTE_LEVEL = ("bpe-byte-level", "tiktoken")
"""Tokenizer kinds that lose nothing, whatever the text."""


@dataclass(frozen=True)
class ConfigRow:
    """An option with its comment."""

    flag: str
    value: SettingValue
    why_lines: tuple[str, ...]

    @classmethod
    def of(cls, setting: EngineSetting) -> Self:
        """The row of a planned setting."""
        text = f"{setting.why} ({setting.belief.value}; {setting.source})"
        return cls(setting.flag, setting.value, tuple(textwrap.wrap(text, COMMENT_WIDTH, break_on_hyphens=False)))


@dataclass(frozen=True)
class VllmConfig:
    """Options of `vllm serve`."""

    template: ClassVar[str] = "adapter/vllm/config.yaml.j2"

    tool_version: str
    rows: tuple[ConfigRow, ...]

    @classmethod
    def of(cls, profile: ModelProfile, plan: ServingPlan) -> Self:  # noqa: ARG003
        """The view of a plan."""
        return cls(plan.tool_version, tuple(ConfigRow.of(setting) for setting in plan.settings))


@dataclass(frozen=True)
class VllmEnv:
    """Environment of the server."""

    template: ClassVar[str] = "adapter/vllm/env.j2"

    tool_version: str
    variables: tuple[EnvSetting, ...]

    @classmethod
    def of(cls, profile: ModelProfile, plan: ServingPlan) -> Self:  # noqa: ARG003
        """The view of a plan."""
        return cls(plan.tool_version, plan.env)


@dataclass(frozen=True)
class TokenizerModule:
    """The tokenizer adapter."""

    template: ClassVar[str] = "adapter/tokenizer/tokenizer_adapter.py.j2"

    tool_version: str
    model: str
    padding_side: str
    token_ids: tuple[tuple[str, int], ...]
    roles: tuple[tuple[str, str], ...]
    stop_token_ids: tuple[int, ...]

    @classmethod
    def of(cls, profile: ModelProfile, plan: ServingPlan) -> Self:
        """The view of a profile. A decoder is padded on the left unless its tokenizer says otherwise."""
        return cls(
            tool_version=plan.tool_version,
            model=profile.ref.name,
            padding_side=profile.tokenizer.padding_side or "left",
            token_ids=token_ids(profile),
            roles=token_roles(profile),
            stop_token_ids=tuple(sorted(set(profile.tokenizer.stop_token_ids))),
        )


@dataclass(frozen=True)
class ConftestModule:
    """Fixtures of the adapter's own tests."""

    template: ClassVar[str] = "adapter/tests/conftest.py.j2"

    tool_version: str

    @classmethod
    def of(cls, profile: ModelProfile, plan: ServingPlan) -> Self:  # noqa: ARG003
        """The view of a plan."""
        return cls(plan.tool_version)


@dataclass(frozen=True)
class TokenizerTest:
    """The test of the tokenizer against a model folder."""

    template: ClassVar[str] = "adapter/tests/test_tokenizer.py.j2"

    tool_version: str
    lossless: bool
    has_chat_template: bool

    @classmethod
    def of(cls, profile: ModelProfile, plan: ServingPlan) -> Self:
        """The view of a profile."""
        traits = profile.tokenizer
        return cls(plan.tool_version, traits.kind in BYTE_LEVEL, traits.has_chat_template)


@dataclass(frozen=True)
class ServerTest:
    """The test of a running server."""

    template: ClassVar[str] = "adapter/tests/test_server.py.j2"

    tool_version: str
    served_name: str
    max_model_len: int
    has_chat_template: bool

    @classmethod
    def of(cls, profile: ModelProfile, plan: ServingPlan) -> Self:
        """The view of a plan."""
        length = plan.setting("max-model-len")
        return cls(
            tool_version=plan.tool_version,
            served_name=plan.served_name,
            max_model_len=length if isinstance(length, int) else profile.max_model_len,
            has_chat_template=profile.tokenizer.has_chat_template,
        )


def token_ids(profile: ModelProfile) -> tuple[tuple[str, int], ...]:
    """Text and id of each special token whose id is known, each text and each id once, by id."""
    by_id: dict[int, str] = {}
    for token in profile.tokenizer.special_tokens:
        if token.id is not None and token.text not in by_id.values():
            by_id.setdefault(token.id, token.text)
    return tuple((text, number) for number, text in sorted(by_id.items()))


def token_roles(profile: ModelProfile) -> tuple[tuple[str, str], ...]:
    """Role and text of the tokens that have a role of their own."""
    roles = {token.role: token.text for token in profile.tokenizer.special_tokens if token.role != "additional"}
    return tuple(roles.items())
