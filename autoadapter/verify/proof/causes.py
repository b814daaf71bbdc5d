"""Why an engine gave no answer: a kernel that this machine lacks is told apart from code that does not work."""

import re
from pathlib import Path

from autoadapter.engine.forks import JobError

NO_KERNEL: tuple[tuple[str, str], ...] = (
    (r"'_OpNamespace' '\w+' object has no attribute '(\w+)'", "this build has no kernel {0}"),
    (r"Could not run '([\w:.]+)' with arguments from the 'CPU' backend", "{0} has no CPU kernel"),
    (r"(?i)no valid attention backend.*", "no attention backend of this machine takes it"),
    (r"(?i)selected backend .* is not valid for this configuration.*", "no attention backend of this machine takes it"),
    (r"(?i)head[ _]size:? ?\(?(\d+)\)? (?:is )?not supported", "no attention kernel for heads of {0}"),
    (r"(?i)unsupported CPU attention configuration: (.*)", "no CPU attention kernel for {0}"),
    (r"(?i)unsupported head[ _](?:size|dim)[^\d]*(\d+)", "no attention kernel for heads of {0}"),
    (r"(?i)no module named '(triton|flashinfer|flash_attn|deep_gemm|flash_mla|fla)\b[\w.]*'", "needs {0}"),
    (r"(?i)\b(triton|flashinfer|deepgemm) is not (?:installed|available)", "needs {0}"),
    (
        r"(?i)(?:only|not) (?:be )?(?:supported|available|implemented|enabled) "
        r"(?:on|for|with) (?:the )?(?:CUDA|GPU|CPU|XPU)",
        "",
    ),
    (r"(?i)requires? (?:a )?(?:CUDA|GPU|Triton|bf16|bfloat16)\b", ""),
    (r"(?i)torch not compiled with cuda|no nvidia driver|no cuda gpus", ""),
)
"""What vLLM says where a kernel is missing → how a report says it; an empty one quotes vLLM."""
KERNEL_FOLDERS = ("/vllm/_custom_ops", "/vllm/v1/attention/", "/vllm/model_executor/layers/", "/vllm/platforms/")
"""Where `NotImplementedError` speaks of the machine and not of the model."""


def lacking_kernel(error: JobError, plugin: Path | None) -> str | None:
    """What this machine lacks for the model, None when the error is the model code's or the checkpoint's own.

    Args:
        error: of the engine's job.
        plugin: the folder of the code that is being proved.
    """
    innermost = error.frames[-1] if error.frames else ""
    if plugin is not None and innermost.startswith(str(plugin)):
        return None
    text = f"{error.kind}: {error.message}"
    for pattern, words in NO_KERNEL:
        found = re.search(pattern, text)
        if found:
            return words.format(*found.groups()) if words else str(error)
    if error.kind == "NotImplementedError" and any(folder in innermost for folder in KERNEL_FOLDERS):
        return str(error) if error.message else f"not implemented on this machine ({innermost.rpartition('/')[2]})"
    return None
