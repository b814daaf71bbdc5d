"""Serves DeepseekV3ForCausalLM in vLLM."""


def register() -> None:
    """Make the model known. vLLM calls this in each of its processes, in some more than once."""
    from vllm import ModelRegistry

    ModelRegistry.register_model("DeepseekV3ForCausalLM", "vllm_adapter_deepseek_v3.model:DeepseekV3ForCausalLM")
