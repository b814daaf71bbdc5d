"""Serves GPT2LMHeadModel in vLLM."""


def register() -> None:
    """Make the model known. vLLM calls this in each of its processes, in some more than once."""
    from vllm import ModelRegistry

    ModelRegistry.register_model("GPT2LMHeadModel", "vllm_adapter_gpt2.model:GPT2ForCausalLM")
