"""Serves LlamaForCausalLM in vLLM."""


def register() -> None:
    """Make the model known. vLLM calls this in each of its processes, in some more than once."""
    from vllm import ModelRegistry

    ModelRegistry.register_model("LlamaForCausalLM", "vllm_adapter_llama.model:LlamaForCausalLM")
