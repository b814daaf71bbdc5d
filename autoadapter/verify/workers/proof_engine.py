"""What vLLM computes for a checkpoint: log-probabilities over the whole vocabulary at every position.

Called by name in a fork of a process that has imported vLLM; see `verify/proof/servers.py`.
"""

import importlib.metadata
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

_kept: list[Any] = []
"""An engine takes a second to shut down; the fork that holds it just ends."""


def versions(_: dict[str, Any]) -> dict[str, Any]:
    """Versions of what computes here."""
    import vllm

    return {
        "vllm": vllm.__version__,
        "torch": torch.__version__,
        "transformers": importlib.metadata.version("transformers"),
    }


def served(_: dict[str, Any]) -> dict[str, Any]:
    """Names of the architectures for which vLLM has model code of its own."""
    from vllm.model_executor.models import registry

    groups = (registry._TEXT_GENERATION_MODELS, registry._MULTIMODAL_MODELS)
    return {"native": sorted({name for group in groups for name in group})}


def isolate(request: dict[str, Any]) -> None:
    """Settings of this fork alone: its own port, its own files, and no plugin but the one to be proved."""
    os.environ["MASTER_PORT"] = str(20000 + os.getpid() % 20000)
    os.environ["VLLM_PLUGINS"] = request["plugin_name"] or ""
    os.environ["VLLM_CACHE_ROOT"] = request["scratch"]
    if request["plugin"]:
        sys.path.insert(0, request["plugin"])


def inspect_in_this_process() -> None:
    """The registry looks at a model class in a process of its own, for seconds; a fork is one already."""
    from vllm.model_executor.models import registry

    if hasattr(registry, "_run_in_subprocess"):
        registry._run_in_subprocess = lambda look: look()


def build(request: dict[str, Any]) -> Any:
    """The engine: eager, float32, one request's cache small, prefill in chunks."""
    from vllm import LLM

    return LLM(
        model=request["model"],
        model_impl=request["model_impl"],
        trust_remote_code=request["trust_remote_code"],
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="float32",
        max_model_len=request["max_model_len"],
        max_num_seqs=4,
        max_num_batched_tokens=4 * request["max_model_len"],
        long_prefill_token_threshold=request["chunk"],
        enable_chunked_prefill=True,
        enable_prefix_caching=False,
        max_logprobs=-1,
        logprobs_mode="raw_logprobs",
        seed=0,
        **request["engine_args"],
    )


def table(positions: list[Any]) -> torch.Tensor:
    """[positions, vocabulary] from vLLM's dicts; NaN where it lists nothing."""
    width = 1 + max(max(position) for position in positions)
    rows = torch.full((len(positions), width), float("nan"))
    for row, position in zip(rows, positions, strict=True):
        tokens = torch.tensor(list(position))
        row[tokens] = torch.tensor([entry.logprob for entry in position.values()])
    return rows


def answer(engine: Any, prompts: list[list[int]], decode: int) -> list[tuple[list[int], torch.Tensor]]:
    """One batch: for every prompt the tokens that vLLM went on with and [prompt - 1 + decode, vocabulary]."""
    from vllm import SamplingParams

    settings = SamplingParams(
        max_tokens=decode, temperature=0.0, ignore_eos=True, prompt_logprobs=-1, logprobs=-1, detokenize=False
    )
    outs = engine.generate([{"prompt_token_ids": ids} for ids in prompts], settings, use_tqdm=False)
    return [
        (list(out.outputs[0].token_ids), table([*filter(None, out.prompt_logprobs), *out.outputs[0].logprobs]))
        for out in outs
    ]


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Run all rounds on one engine.

    Request: `model`, `model_impl`, `plugin` (folder for `sys.path`, or null), `plugin_name`, `trust_remote_code`,
    `max_model_len`, `chunk`, `rounds` (list of batches of prompts), `decode`, `scratch`, `tensors` (file to write),
    `engine_args`.
    Result: `generated` (per round, per prompt), `module` and `name` of the class that answered, `load_seconds`.
    """
    isolate(request)
    inspect_in_this_process()
    began = time.monotonic()
    engine = build(request)
    _kept.append(engine)
    loaded = time.monotonic()
    module, name = engine.apply_model(lambda model: (type(model).__module__, type(model).__qualname__))[0]
    rounds = [answer(engine, prompts, request["decode"]) for prompts in request["rounds"]]
    tensors = {f"{at}.{row}": rows for at, batch in enumerate(rounds) for row, (_, rows) in enumerate(batch)}
    Path(request["tensors"]).parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, request["tensors"])
    return {
        "generated": [[tokens for tokens, _ in batch] for batch in rounds],
        "module": module,
        "name": name,
        "load_seconds": round(loaded - began, 2),
        "answer_seconds": round(time.monotonic() - loaded, 2),
    }
