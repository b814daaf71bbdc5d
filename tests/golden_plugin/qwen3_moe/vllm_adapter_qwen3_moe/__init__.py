"""Serves Qwen3MoeForCausalLM in vLLM."""


def register() -> None:
    """Make the model known. vLLM calls this in each of its processes, in some more than once."""
    from vllm import ModelRegistry

    ModelRegistry.register_model("Qwen3MoeForCausalLM", "vllm_adapter_qwen3_moe.model:Qwen3MoeForCausalLM")
