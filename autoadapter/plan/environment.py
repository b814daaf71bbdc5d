"""Environment variables of the server process."""

from autoadapter.artifacts import EnvSetting
from autoadapter.families import Recipe
from autoadapter.plan.layout import Candidate
from autoadapter.plan.overhead import GIB

ENVS = "vLLM 0.32 envs.py"


def environment(chosen: Candidate, recipe: Recipe | None = None) -> tuple[EnvSetting, ...]:
    """Quiet and offline everywhere; the KV pool and thread binding on a CPU; what a recipe adds to that."""
    own = (*(_cpu(chosen) if chosen.situation.hardware.kind == "cpu" else ()), *_quiet())
    names = {setting.name for setting in own}
    return (*own, *(setting for setting in _of_recipe(recipe) if setting.name not in names))


def _of_recipe(recipe: Recipe | None) -> tuple[EnvSetting, ...]:
    if recipe is None:
        return ()
    why = "the recipe of this very model sets it"
    return tuple(
        EnvSetting(name=row.name, value=row.value, why=why, source=f"recipe {recipe.file}: {row.key}")
        for row in recipe.env
    )


def _cpu(chosen: Candidate) -> tuple[EnvSetting, ...]:
    pool = EnvSetting(
        name="VLLM_CPU_KVCACHE_SPACE",
        value=str(chosen.memory.kv_pool_bytes // GIB),
        why=f"GiB of KV cache: {chosen.memory.kv_tokens} tokens",
        source="memory plan",
    )
    binding = EnvSetting(
        name="VLLM_CPU_OMP_THREADS_BIND",
        value="nobind",
        why="few cores and containers: binding to cores that another process also takes costs more than it gains",
        source=ENVS,
    )
    exact = EnvSetting(
        name="VLLM_CPU_INT4_W4A8",
        value="0",
        why="keep activations at 16 bit: on AMX vLLM would round them to 8, which cost 0.01-0.04 nats when measured",
        source="vLLM 0.32 kernels/linear/mixed_precision/cpu.py; measured on a 135M model",
    )
    is_int4 = chosen.scheme.name.startswith("w4a16") or _source_bits(chosen) == 4
    return (pool, binding, *((exact,) if is_int4 else ()))


def _source_bits(chosen: Candidate) -> int | None:
    quantization = chosen.situation.profile.quantization
    return quantization.bits if quantization and quantization.method != "gguf" else None


def _quiet() -> tuple[EnvSetting, ...]:
    return (
        EnvSetting(name="VLLM_NO_USAGE_STATS", value="1", why="nothing is reported to anybody", source=ENVS),
        EnvSetting(name="DO_NOT_TRACK", value="1", why="nothing is reported to anybody", source=ENVS),
        EnvSetting(
            name="HF_HUB_OFFLINE",
            value="1",
            why="the server reads its folder and never asks the Hub",
            source="huggingface_hub documentation, environment variables",
        ),
    )
