"""Serves BambaForCausalLM in vLLM."""


def register() -> None:
    """Make the model known. vLLM calls this in each of its processes, in some more than once."""
    from vllm import ModelRegistry
    from vllm.model_executor.models.config import MODELS_CONFIG_MAP, MambaModelConfig

    MODELS_CONFIG_MAP.setdefault("BambaForCausalLM", MambaModelConfig)
    ModelRegistry.register_model("BambaForCausalLM", "vllm_adapter_bamba.model:BambaForCausalLM")
