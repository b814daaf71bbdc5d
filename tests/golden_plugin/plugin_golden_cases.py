"""The golden plugins: fitted specs, kept as JSON, chosen so that every part of a decoder is rendered once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.generate.plugin import render_plugin

HERE = Path(__file__).parent
VLLM = "0.32.0"


@dataclass(frozen=True)
class PluginCase:
    """A spec and the vLLM that it is rendered for."""

    name: str
    vllm_version: str = VLLM
    remote: bool = False
    """The checkpoint came with code of its own."""

    @property
    def spec(self) -> DecoderSpec:
        """The stored spec."""
        return DecoderSpec.read(HERE / "specs" / f"{self.name}.json")

    @property
    def config(self) -> dict[str, Any]:
        """The checkpoint's config."""
        extra = {"auto_map": {"AutoConfig": "configuration.Config"}} if self.remote else {}
        return {**self.spec.config_seen, **extra}


CASES = (
    PluginCase("llama"),
    PluginCase("gpt2"),
    PluginCase("gpt_neox"),
    PluginCase("gemma2"),
    PluginCase("bloom"),
    PluginCase("cohere"),
    PluginCase("qwen3_moe"),
    PluginCase("deepseek_v3"),
    PluginCase("gpt_oss", remote=True),
    PluginCase("dbrx", vllm_version="0.25.1"),
    PluginCase("bamba"),
)


def write_case(case: PluginCase, folder: Path) -> None:
    """Render a case into a folder."""
    render_plugin(case.spec, folder, vllm_version=case.vllm_version, config=case.config)
