"""Times what a user waits for most often. Figures are ratios within one run: machines differ, ratios travel."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

RUNS = 7
LAYERS = 80


def seconds(command: Sequence[str]) -> float:
    """Median wall time of a command over `RUNS` runs, after one that warms the file cache."""
    times = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def sharded_model(folder: Path) -> Path:
    """A checkpoint of 80 shards whose tensors are holes: headers are real, data takes no disk."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 8192,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "intermediate_size": 28672,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
    }
    (folder / "config.json").write_text(json.dumps(config))
    index: dict[str, str] = {}
    for layer in range(LAYERS):
        name = f"model-{layer + 1:05}-of-{LAYERS:05}.safetensors"
        tensors = {f"model.layers.{layer}.mlp.{part}_proj.weight": [28672, 8192] for part in ("gate", "up", "down")}
        _write_shard(folder / name, tensors)
        index.update(dict.fromkeys(tensors, name))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return folder


def _write_shard(path: Path, tensors: dict[str, list[int]]) -> None:
    header, offset = {}, 0
    for name, shape in tensors.items():
        size = shape[0] * shape[1] * 2
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + offset)


def main() -> None:
    """Print each figure as a multiple of starting Python."""
    tool = [sys.executable, "-m", "autoadapter"]
    with tempfile.TemporaryDirectory() as scratch:
        model = sharded_model(Path(scratch))
        analyze = ["analyze", str(model), "-w", f"{scratch}/workspace", "--force", "--json", "--vllm-version", "0.32.0"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "autoadapter --help": [*tool, "--help"],
            f"autoadapter analyze ({LAYERS} shards)": [*tool, *analyze],
        }
        took = {name: seconds(command) for name, command in commands.items()}
    base = took["python -c pass"]
    for name, value in took.items():
        print(f"{name:40} {value * 1000:8.0f} ms   {value / base:6.1f} x python")


if __name__ == "__main__":
    main()
