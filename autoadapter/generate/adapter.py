"""Profile and plan → the adapter folder, written whole or not at all."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import autoadapter
from autoadapter.artifacts import AdapterBundle, Finding, Level, ModelProfile, RenderedFile, ServingPlan
from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.generate.corpus import CORPUS
from autoadapter.generate.plugin import render_plugin
from autoadapter.generate.readme import Readme
from autoadapter.generate.views import (
    ConftestModule,
    ServerTest,
    TokenizerModule,
    TokenizerTest,
    VllmConfig,
    VllmEnv,
    token_ids,
    token_roles,
)
from autoadapter.rendering import render, replace_folder, write_tree

VIEWS = (VllmConfig, VllmEnv, TokenizerModule, ConftestModule, TokenizerTest, ServerTest, Readme)
PREFIX = "adapter/"
PLUGIN = "plugin"
DUMPED = "(dumped from typed values)"


@dataclass(frozen=True)
class ModelCode:
    """What the vLLM plugin of a model is rendered from."""

    spec: DecoderSpec
    config: dict[str, Any]
    """The checkpoint's own config.json."""


def render_adapter(
    profile: ModelProfile, plan: ServingPlan, folder: Path, code: ModelCode | None = None
) -> AdapterBundle:
    """Write `adapter/`: it replaces the folder as a whole, so an interrupt leaves the old one or the new one.

    Args:
        profile: what `analyze` found.
        plan: what `make_plan` decided for it.
        folder: where the adapter goes.
        code: where the plan's route needs model code: it is rendered into `plugin/`.

    Returns:
        The manifest, which is also `adapter.json` in the folder.

    Raises:
        StorageError: the disk is full or the folder may not be written.
        UnsupportedModelError: the code cannot be rendered for this vLLM.
    """
    texts = _rendered(profile, plan) | _dumped(profile)
    sources = {view.template.removeprefix(PREFIX).removesuffix(".j2"): view.template for view in VIEWS}
    with replace_folder(folder) as draft:
        hashes = write_tree(draft, texts) | _plugin(draft, plan, code)
        bundle = AdapterBundle(
            tool_version=autoadapter.__version__,
            plan_digest=plan.digest(),
            files=tuple(
                RenderedFile(path=path, template=sources.get(path) or _origin(path), sha256=digest)
                for path, digest in sorted(hashes.items())
            ),
            findings=tuple(_findings(profile)),
        )
        write_tree(draft, {AdapterBundle.file_name: bundle.to_json()})
    return bundle


def _plugin(draft: Path, plan: ServingPlan, code: ModelCode | None) -> dict[str, str]:
    """The plugin's files and their SHA-256."""
    if code is None:
        return {}
    package = render_plugin(code.spec, draft / PLUGIN, vllm_version=plan.vllm_version, config=code.config)
    write_tree(draft, {f"{PLUGIN}/{DecoderSpec.file_name}": code.spec.to_json()})
    names = (*package.files, DecoderSpec.file_name)
    return {f"{PLUGIN}/{name}": sha256((draft / PLUGIN / name).read_bytes()).hexdigest() for name in names}


def _origin(path: str) -> str:
    is_code = path.startswith(f"{PLUGIN}/") and not path.endswith(DecoderSpec.file_name)
    return "plugin/" if is_code else DUMPED


def _rendered(profile: ModelProfile, plan: ServingPlan) -> dict[str, str]:
    views = [view.of(profile, plan) for view in VIEWS]
    return {view.template.removeprefix(PREFIX).removesuffix(".j2"): render(view) for view in views}


def _dumped(profile: ModelProfile) -> dict[str, str]:
    special = {
        "by_role": dict(token_roles(profile)),
        "additional": [token.text for token in profile.tokenizer.special_tokens if token.role == "additional"],
        "by_text": dict(token_ids(profile)),
        "by_id": {str(number): text for text, number in token_ids(profile)},
        "stop_token_ids": sorted(set(profile.tokenizer.stop_token_ids)),
    }
    return {"tokenizer/special_tokens.json": _json(special), "tests/corpus.json": _json(CORPUS)}


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _findings(profile: ModelProfile) -> Iterator[Finding]:
    traits = profile.tokenizer
    if traits.kind != "gguf" and "tokenizer.json" not in traits.files:
        yield Finding(
            code="generate.no-fast-tokenizer",
            level=Level.WARNING,
            message="The model has no tokenizer.json; the tokenizer adapter needs one beside the weights.",
            hint="Convert the tokenizer with transformers and save it into the model folder",
            source="profile: tokenizer.files",
        )
    if not traits.stop_token_ids:
        yield Finding(
            code="generate.no-stop-token",
            level=Level.WARNING,
            message="No stop token is known: answers end only at their length limit.",
            hint=None,
            source="profile: tokenizer.stop_token_ids",
        )
