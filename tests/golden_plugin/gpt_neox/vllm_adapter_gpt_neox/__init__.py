"""Serves GPTNeoXForCausalLM in vLLM."""


def register() -> None:
    """Make the model known. vLLM calls this in each of its processes, in some more than once."""
    from vllm import ModelRegistry

    ModelRegistry.register_model("GPTNeoXForCausalLM", "vllm_adapter_gpt_neox.model:GPTNeoXForCausalLM")
