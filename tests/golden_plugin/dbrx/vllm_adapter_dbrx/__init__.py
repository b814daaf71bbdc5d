"""Serves DbrxForCausalLM in vLLM."""


def register() -> None:
    """Make the model known. vLLM calls this in each of its processes, in some more than once."""
    from vllm import ModelRegistry

    ModelRegistry.register_model("DbrxForCausalLM", "vllm_adapter_dbrx.model:DbrxForCausalLM")
