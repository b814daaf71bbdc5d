"""llm-compressor: INT8 and FP8 without data, 4-bit GPTQ with calibration text."""

from typing import ClassVar

from autoadapter.artifacts import Finding, Hardware, Level, ModelProfile, Scheme
from autoadapter.engine.schemes import scheme as scheme_row
from autoadapter.optimize.backend import Backend, Job, Judgement, Made
from autoadapter.optimize.backends.convert import target_dtype
from autoadapter.optimize.checkpoint import copy_companions, merge_config
from autoadapter.optimize.postcheck import require_quantized
from autoadapter.optimize.steps import run_step

SCALE_BYTES = 2
_MOE = "quantized experts cannot be measured: transformers does not read back what llm-compressor writes for them"
"""Seen with llmcompressor 0.14.0.1 and transformers 5.17.0 on small Qwen3-MoE and Mixtral checkpoints; for Mixtral the
experts also lose the names that vLLM loads."""
SAMPLE_TOKENS = 512
"""Length of a calibration sample; llm-compressor's own examples use 512 to 2048."""


class LlmCompressor(Backend):
    """Writes compressed-tensors checkpoints; `lm_head` and the embeddings keep their dtype."""

    name: ClassVar[str] = "llmcompressor"
    schemes: ClassVar[tuple[str, ...]] = ("int8_w8a8", "fp8_dynamic", "w4a16_gptq")
    environment: ClassVar[str | None] = "llmcompressor"

    group_size: int | None = None
    """Input columns that share a scale; only for 4 bits."""

    def judge(self, profile: ModelProfile, hardware: Hardware, scheme: Scheme) -> Judgement:
        """Refuse models that are not covered, hardware without the kernel, and groups that do not divide."""
        reasons = (
            _uncovered(profile),
            scheme_row(scheme.name).refusal(hardware),
            self._bad_group(profile) if scheme.name == "w4a16_gptq" else None,
        )
        reason = next((reason for reason in reasons if reason), None)
        return Judgement(reason is None, reason or "")

    def _bad_group(self, profile: ModelProfile) -> str | None:
        allowed = scheme_row("w4a16_gptq").group_sizes
        if self.group_size not in allowed:
            return f"w4a16_gptq needs a group_size of {', '.join(map(str, allowed))}, not {self.group_size}"
        bad = [f"{what} {size}" for what, size in _columns(profile).items() if size % self.group_size]
        return f"group_size {self.group_size} does not divide {' and '.join(bad)}" if bad else None

    def estimate(self, profile: ModelProfile, scheme: Scheme) -> int:
        """Linear weights at the scheme's bits, their scales, and the embeddings (and head) at 16 bits."""
        embedding = profile.embedding
        ends = embedding.vocab_size * embedding.hidden_size * (1 if embedding.tied else 2)
        linear = profile.tensors.parameters - ends
        bits = scheme_row(scheme.name).served_bits or 16
        per_scale = self.group_size or embedding.hidden_size
        return linear * bits // 8 + linear // per_scale * SCALE_BYTES + ends * 2

    def ignore(self, profile: ModelProfile) -> tuple[str, ...]:
        """Modules that stay as they are, in llm-compressor's pattern language.

        vLLM dequantizes MLA's `kv_b_proj` at load (layers/attention/mla_attention.py), so quantizing it only loses.
        """
        return ("lm_head", "re:.*kv_b_proj$") if profile.attention.kind == "mla" else ("lm_head",)

    def run(self, job: Job) -> Made:
        """Quantize, restore the files that travel with the weights, and prove that it was done."""
        row = scheme_row(job.scheme.name)
        request = {
            "source": str(job.source),
            "output": str(job.output),
            "scheme": job.scheme.name,
            "group_size": self.group_size,
            "ignore": list(self.ignore(job.profile)),
            "dtype": target_dtype(job.profile),
            "calibration": str(job.calibration) if row.needs_calibration else None,
            "samples": job.samples,
            "sample_tokens": SAMPLE_TOKENS,
            "trust_remote_code": job.trust_remote_code,
        }
        outcome, step = run_step("quantize", self.name, job, request)
        (job.output / "recipe.yaml").unlink(missing_ok=True)  # holds Python object tags; the request file says the same
        copy_companions(job.source, job.output)
        merge_config(job.source, job.output, target_dtype(job.profile))
        require_quantized(job, outcome.result["targets"], self.estimate(job.profile, job.scheme))
        return Made(step, _findings(outcome.result))


def _uncovered(profile: ModelProfile) -> str | None:
    if profile.quantization and profile.tensors.format != "gguf":
        return f"the checkpoint is quantized already ({profile.quantization.method})"
    if profile.tensors.format == "none":
        return "the checkpoint holds no weights"
    if profile.moe:
        return _MOE
    if profile.state:
        return f"quantizing recurrent layers ({profile.state.kind}) is not covered"
    if profile.architecture.endswith("ForConditionalGeneration"):
        return f"quantizing multimodal models ({profile.architecture}) is not covered"
    return None


def _columns(profile: ModelProfile) -> dict[str, int]:
    """Input widths of the linear layers."""
    attention = profile.attention
    widths = {
        "hidden_size": profile.embedding.hidden_size,
        "heads x head_dim": attention.num_attention_heads * attention.head_dim,
    }
    return widths | ({"intermediate_size": profile.mlp.intermediate_size} if profile.mlp else {})


def _findings(result: dict[str, object]) -> tuple[Finding, ...]:
    facts = result["calibration"]
    if not isinstance(facts, dict):
        return ()
    template = "through the chat template" if facts["chat_template"] else "as plain text"
    message = (
        f"Calibrated on {facts['samples']} samples of {facts['tokens_per_sample']} tokens "
        f"({facts['distinct_tokens']} distinct) {template}, text sha256 {facts['sha256'][:12]}."
    )
    hint = "Text like your own traffic is better: --calibration-data FILE (.jsonl with messages or text, or .txt)"
    return (Finding(code="optimize.calibration", level=Level.INFO, message=message, hint=hint, source="calibration"),)
