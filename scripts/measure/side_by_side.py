"""Speed of two engines for one model, held on one GPU at once and asked in turn: one JSON line a case.

    python scripts/measure/side_by_side.py CASES.jsonl CONFIGS_DIR OUT.jsonl [--skip N]

A case is `{"name", "config", "layers", "engine", "plugin", "workloads", "repeats"}`: `startup_memory.py` says what
config, layers and engine are; `plugin` is a folder for PYTHONPATH of the second engine, the first is vLLM's own model.
A workload is `[requests, input_tokens, output_tokens]`. Both engines hold dummy weights, which vLLM draws from one
seed, and stay idle while the other works; A, B, A, B, … with fresh prompts, the same for both. `kv_cache_memory_bytes`
belongs into `engine`: two engines cannot both profile the free memory.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from startup_memory import shortened

ROUTER_STD = 30.0
"""The hidden states under dummy norm weights are about 1e-3: logits of spread 1 and more."""


def serve(folder: str, engine: dict) -> None:
    """Hold one engine; answer every line `[seed, requests, input_tokens, output_tokens]` with seconds and tokens."""
    from vllm import LLM, SamplingParams

    began = time.time()
    llm = LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, **engine)
    seconds = round(time.time() - began, 1)
    answer(**llm.apply_model(prepared)[0], startup_s=seconds)
    for line in sys.stdin:
        seed, requests, inputs, outputs = json.loads(line)
        numbers = random.Random(seed)
        prompts = [
            {"prompt_token_ids": [numbers.randrange(100, 30000) for _ in range(inputs)]} for _ in range(requests)
        ]
        sampling = SamplingParams(temperature=0, max_tokens=outputs, ignore_eos=True, detokenize=False)
        began = time.time()
        results = llm.generate(prompts, sampling, use_tqdm=False)
        seconds = time.time() - began
        answer(seconds=seconds, first_tokens=[list(result.outputs[0].token_ids)[:8] for result in results[:4]])


def prepared(model: Any) -> dict:
    """Draw routers that tell experts apart, and say who answers.

    vLLM's dummy weights leave router scores that are equal in bfloat16, and how a kernel breaks ties would then decide
    how many experts are read.
    """
    import torch

    routers = [weight for name, weight in model.named_parameters() if name.endswith(".gate.weight")]
    generator = torch.Generator(device="cuda").manual_seed(0)
    for weight in routers:
        weight.data.copy_(torch.randn(weight.shape, generator=generator, device=weight.device) * ROUTER_STD)
    return {"class_name": f"{type(model).__module__}.{type(model).__name__}", "routers_drawn": len(routers)}


def answer(**fields: object) -> None:
    """One line to the parent; vLLM writes to stdout, too."""
    print("ANSWER " + json.dumps(fields), flush=True)


class Engine:
    """A child process that holds one engine."""

    def __init__(self, folder: Path, engine: dict, plugin: str | None, log: Path) -> None:
        """Start it; `started` waits for it."""
        environ = dict(os.environ, VLLM_ALLOW_INSECURE_SERIALIZATION="1")
        if plugin:
            environ["PYTHONPATH"] = os.pathsep.join([str(Path(plugin).resolve()), environ.get("PYTHONPATH", "")])
        command = [sys.executable, __file__, "--serve", str(folder), json.dumps(engine)]
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environ, encoding="utf-8"
            )

    def read(self) -> dict:
        """The next answer.

        Raises:
            RuntimeError: the child ended.
        """
        for line in self.process.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line.removeprefix("ANSWER "))
        tail = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
        raise RuntimeError("the engine ended: " + " | ".join(tail)[-1500:])

    def ask(self, *request: int) -> dict:
        """One workload."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.read()

    def stop(self) -> None:
        """End the child that this object started."""
        self.process.kill()
        self.process.wait()


def compare(engines: dict[str, Engine], workload: list[int], repeats: int) -> dict:
    """One workload, in turn; the first round warms up and does not count."""
    requests, _, outputs = workload
    speeds: dict[str, list[float]] = {name: [] for name in engines}
    same = True
    for repeat in range(repeats + 1):
        answers = {name: engine.ask(repeat, *workload) for name, engine in engines.items()}
        first, second = (given["first_tokens"] for given in answers.values())
        same = same and first == second
        if repeat:
            for name, given in answers.items():
                speeds[name].append(round(requests * outputs / given["seconds"], 1))
    native, generated = speeds.values()
    ratios = [round(b / a, 4) for a, b in zip(native, generated, strict=True)]
    return {
        "workload": workload,
        "output_tok_s": speeds,
        "ratios": ratios,
        "ratio_of_medians": round(statistics.median(generated) / statistics.median(native), 4),
        "spread": round(max(ratios) - min(ratios), 4),
        "same_first_tokens": same,
    }


def run_case(case: dict, configs: Path, scratch: Path) -> dict:
    """Both engines of a case."""
    folder = scratch / case["name"]
    folder.mkdir(parents=True)
    config = json.loads((configs / case["config"]).read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(shortened(config, case.get("layers"))), encoding="utf-8")
    plugins = {"native": None, "generated": case["plugin"]}
    engines: dict[str, Engine] = {}
    try:
        for name, plugin in plugins.items():
            engines[name] = Engine(folder, case["engine"], plugin, scratch / f"{case['name']}.{name}.log")
        starts = {name: engine.read() for name, engine in engines.items()}
        results = [compare(engines, workload, case["repeats"]) for workload in case["workloads"]]
        return {**case, "starts": starts, "results": results}
    except RuntimeError as error:
        return {**case, "error": str(error)}
    finally:
        for engine in engines.values():
            engine.stop()


def main() -> None:
    """Run the cases and append a line for each."""
    cases, configs, out, *rest = sys.argv[1:]
    skip = int(rest[1]) if rest[:1] == ["--skip"] else 0
    with tempfile.TemporaryDirectory() as scratch, Path(out).open("a", encoding="utf-8") as stream:
        for line in Path(cases).read_text(encoding="utf-8").splitlines()[skip:]:
            result = run_case(json.loads(line), Path(configs), Path(scratch))
            stream.write(json.dumps(result) + "\n")
            stream.flush()
            print(json.dumps(result)[:1500], flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2], json.loads(sys.argv[3]))
    else:
        main()
