"""Serves GptOssForCausalLM in vLLM."""


def register() -> None:
    """Make the model known. vLLM calls this in each of its processes, in some more than once."""
    from transformers import AutoConfig
    from vllm import ModelRegistry

    from vllm_adapter_gpt_oss.configuration import GptOssConfig

    AutoConfig.register("gpt_oss", GptOssConfig, exist_ok=True)
    ModelRegistry.register_model("GptOssForCausalLM", "vllm_adapter_gpt_oss.model:GptOssForCausalLM")
