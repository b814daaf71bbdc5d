"""`autoadapter analyze`."""

from typing import TYPE_CHECKING

from autoadapter.cli.common import pipeline, relative, say_if_skipped
from autoadapter.cli.options import (
    EngineOpt,
    ForceOpt,
    HardwareOpt,
    JsonOpt,
    ModelArg,
    RemoteCodeOpt,
    RevisionOpt,
    VllmOpt,
    WorkspaceOpt,
)
from autoadapter.cli.output import Out, human_bytes, human_count

if TYPE_CHECKING:
    from autoadapter.artifacts import ModelProfile


def analyze(
    model: ModelArg,
    workspace: WorkspaceOpt = None,
    revision: RevisionOpt = None,
    hardware: HardwareOpt = "cpu",
    engine_python: EngineOpt = None,
    vllm_version: VllmOpt = None,
    trust_remote_code: RemoteCodeOpt = False,
    force: ForceOpt = False,
    json: JsonOpt = False,
) -> None:
    """What is this model, and will it run? Reads configs and tensor headers, never the weights.

    For example:

      autoadapter analyze ./SmolLM2-135M-Instruct

      autoadapter analyze Qwen/Qwen3-8B --revision main --json
    """
    from autoadapter.errors import UnsupportedModelError
    from autoadapter.pipeline import open_workspace

    out = Out(as_json=json)
    opened = open_workspace(model, revision, workspace)
    settings = {"hardware": hardware, "engine_python": engine_python, "vllm_version": vllm_version}
    with pipeline(opened, out, "analyze", trust_remote_code=trust_remote_code, force=force, **settings) as stages:
        outcome = stages.analyze()
    say_if_skipped(out, outcome)
    profile = outcome.artifact
    if json:
        out.document(profile.model_dump(mode="json"))
    else:
        show_profile(out, profile)
        out.line(f"Written: {relative(outcome.path)}", style="dim")
    if profile.verdict.outcome == "will_not_start":
        raise UnsupportedModelError(f"{profile.ref.name} will not start: {profile.verdict.reason}")
    out.next_step(f"autoadapter generate --strategy balanced -w {relative(opened.root)}")


def show_profile(out: Out, profile: "ModelProfile") -> None:
    """The profile on one screen."""
    out.heading(f"{profile.ref.name}  ({profile.architecture})")
    out.facts([*_size(profile), *_shape(profile), *_words(profile), *_outlook(profile)])
    out.findings(profile.findings)


def _size(profile: "ModelProfile") -> list[tuple[str, str]]:
    tensors = profile.tensors
    dtypes = ", ".join(f"{dtype} {human_count(count)}" for dtype, count in tensors.parameters_by_dtype.items())
    memory = profile.memory
    return [
        ("parameters", f"{human_count(tensors.parameters)} in {tensors.tensors} tensors ({dtypes})"),
        (
            "weights",
            f"{human_bytes(memory.weight_bytes)} as {tensors.format}, {len(tensors.files)} file(s); "
            f"{human_bytes(memory.served_weight_bytes)} served as {memory.served_dtype}",
        ),
        ("KV cache", f"{human_bytes(memory.kv_bytes_per_token)} a token at 16 bit"),
    ]


def _shape(profile: "ModelProfile") -> list[tuple[str, str]]:
    attention, rope, moe = profile.attention, profile.rope, profile.moe
    heads = f"{attention.num_attention_heads} heads, {attention.num_key_value_heads} KV heads of {attention.head_dim}"
    window = (
        f", window {attention.sliding_window} on {attention.num_sliding_layers}" if attention.sliding_window else ""
    )
    rows = [
        ("layers", f"{attention.num_layers}, hidden {profile.embedding.hidden_size}"),
        ("attention", f"{attention.kind}, {heads}{window}"),
        ("context", f"{profile.max_model_len:,} tokens"),
    ]
    if rope:
        rows.append(
            ("RoPE", f"{rope.kind}, theta {rope.theta:g}" + (f", factor {rope.factor:g}" if rope.factor else ""))
        )
    if moe:
        rows.append(
            ("MoE", f"{moe.num_experts} experts, {moe.num_experts_per_tok} a token, {moe.num_shared_experts} shared")
        )
    return rows


def _words(profile: "ModelProfile") -> list[tuple[str, str]]:
    tokenizer = profile.tokenizer
    special = ", ".join(
        f"{token.role} {token.text} ({token.id})" for token in tokenizer.special_tokens if token.role != "additional"
    )
    template = f"from {tokenizer.chat_template_source}" if tokenizer.has_chat_template else "none"
    return [
        (
            "tokenizer",
            f"{tokenizer.kind}, {tokenizer.vocab_size or '?'} tokens; stops at {list(tokenizer.stop_token_ids)}",
        ),
        ("special tokens", special or "none"),
        ("chat template", template),
    ]


def _outlook(profile: "ModelProfile") -> list[tuple[str, str]]:
    verdict = profile.verdict
    quantization = profile.quantization
    remote = profile.remote_code
    return [
        ("quantization", f"{quantization.method}, {quantization.bits or '?'} bit" if quantization else "none"),
        ("remote code", ", ".join(remote.files) or ", ".join(remote.auto_map) if remote else "none"),
        (
            "verdict",
            f"{verdict.outcome.replace('_', ' ')} on vLLM {verdict.vllm_version}, "
            f"route {verdict.route}: {verdict.reason}",
        ),
    ]
