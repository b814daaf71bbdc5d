"""Where vLLM's memory goes at a start, on a GPU, with dummy weights: one JSON line a case.

    python scripts/measure/startup_memory.py CASES.jsonl CONFIGS_DIR OUT.jsonl [--skip N]

A case is `{"name", "config", "layers", "engine"}`: a folder below CONFIGS_DIR that holds config.json, how many decoder
layers to keep (null: all), and keyword arguments of `vllm.LLM`. Each case runs in a forked child, so that the import
is paid once; what the child logs is kept as far as it speaks of memory, and parsed later by the planner's own tests.
"""

import json
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

KEPT = re.compile(r"Actual usage|\(estimated\)|KV cache|concurrency|block size|loading took|capturing finished|Error")
SECONDS_A_CASE = 170
PER_LAYER = ("layer_types", "mlp_layer_types", "hybrid_override_pattern", "layers_block_type")


def shortened(config: dict, layers: int | None) -> dict:
    """The config with its first layers only."""
    if layers is None:
        return config
    small = {**config, "num_hidden_layers": layers}
    small |= {key: config[key][:layers] for key in PER_LAYER if config.get(key)}
    if "max_window_layers" in small:
        small["max_window_layers"] = min(small["max_window_layers"], layers)
    return small


def start(folder: str, engine: dict) -> dict:
    """Start one engine in this process and say what it found."""
    from vllm import LLM

    began = time.time()
    llm = LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, **engine)
    vllm_config = llm.llm_engine.vllm_config
    cache = vllm_config.cache_config
    return {
        "seconds": round(time.time() - began, 1),
        "num_gpu_blocks": cache.num_gpu_blocks,
        "block_size": cache.block_size,
        "gpu_memory_utilization": cache.gpu_memory_utilization,
        "max_num_seqs": vllm_config.scheduler_config.max_num_seqs,
        "max_num_batched_tokens": vllm_config.scheduler_config.max_num_batched_tokens,
        "max_model_len": vllm_config.model_config.max_model_len,
        "enforce_eager": vllm_config.model_config.enforce_eager,
    }


def run_case(case: dict, configs: Path, scratch: Path) -> dict:
    """One case in a forked child."""
    folder = scratch / case["name"]
    folder.mkdir(parents=True)
    config = json.loads((configs / case["config"]).read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(shortened(config, case.get("layers"))), encoding="utf-8")
    log, answer = folder / "log", folder / "answer.json"
    child = os.fork()
    if child == 0:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        code = 1
        try:
            answer.write_text(json.dumps(start(str(folder), case["engine"])), encoding="utf-8")
            code = 0
        except BaseException as error:
            print(f"Error: {type(error).__name__}: {error}", flush=True)
        finally:
            os._exit(code)
    deadline = time.time() + SECONDS_A_CASE
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.time() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            break
        time.sleep(0.3)
    lines = [line[:400] for line in log.read_text(errors="replace", encoding="utf-8").splitlines() if KEPT.search(line)]
    found = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else None
    return {**case, "found": found, "log": lines[-40:]}


def device() -> dict:
    """What the machine is, asked in a child so that this process stays without a CUDA context."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        import torch

        free, total = torch.cuda.mem_get_info()
        said = {
            "gpu": torch.cuda.get_device_name(),
            "free_bytes": free,
            "total_bytes": total,
            "torch": torch.__version__,
        }
        os.write(writer, json.dumps(said).encode())
        os._exit(0)
    os.close(writer)
    os.wait()
    return json.loads(os.read(reader, 4096))


def main() -> None:
    """Run the cases in their order; what was measured before a timeout is kept."""
    cases_path, configs, out = (Path(argument) for argument in sys.argv[1:4])
    skip = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    import vllm

    machine = {**device(), "vllm": vllm.__version__}
    scratch = Path(tempfile.mkdtemp())
    with out.open("a", encoding="utf-8") as file:
        for line in cases_path.read_text(encoding="utf-8").splitlines()[skip:]:
            case = json.loads(line)
            result = {**machine, **run_case(case, configs, scratch)}
            file.write(json.dumps(result) + "\n")
            file.flush()
            found = result["found"] or {}
            print("CASE", case["name"], found.get("seconds"), found.get("num_gpu_blocks"), flush=True)
            if not found:
                print("\n".join(result["log"][-6:]), flush=True)
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
