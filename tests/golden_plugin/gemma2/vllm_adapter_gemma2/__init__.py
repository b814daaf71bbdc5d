"""Serves Gemma2ForCausalLM in vLLM."""


def register() -> None:
    """Make the model known. vLLM calls this in each of its processes, in some more than once."""
    from vllm import ModelRegistry

    ModelRegistry.register_model("Gemma2ForCausalLM", "vllm_adapter_gemma2.model:Gemma2ForCausalLM")
