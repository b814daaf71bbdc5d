"""Which files are the weights, and what is said of the others."""

import json
from pathlib import Path

import pytest

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import Level, ModelProfile
from autoadapter.errors import BrokenCheckpointError, UnsupportedModelError, UserError
from tests.unit.analyze.analyze_files import (
    LLAMA_PARAMETERS,
    LLAMA_SHAPES,
    gguf_llama,
    safetensors_bytes,
    torch_bytes,
    write_model,
)

NAMES = list(LLAMA_SHAPES)
FIRST = safetensors_bytes({name: LLAMA_SHAPES[name] for name in NAMES[:2]})
SECOND = safetensors_bytes({name: LLAMA_SHAPES[name] for name in NAMES[2:]})


def profile(folder: Path) -> ModelProfile:
    return analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cpu")


def codes(found: ModelProfile) -> set[str]:
    return {finding.code for finding in found.findings}


def index(shards: dict[str, str]) -> str:
    return json.dumps({"metadata": {}, "weight_map": shards})


def sharded() -> dict[str, bytes | str]:
    one, two = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    table = {name: one if name in NAMES[:2] else two for name in NAMES}
    return {one: FIRST, two: SECOND, "model.safetensors.index.json": index(table)}


def test_shards_add_up(tmp_path: Path) -> None:
    found = profile(write_model(tmp_path / "m", files=sharded()))
    assert found.tensors.parameters == LLAMA_PARAMETERS
    assert [file.name for file in found.tensors.files] == sorted(name for name in sharded() if "of" in name)
    assert found.memory.weight_bytes == 2 * LLAMA_PARAMETERS


def test_index_names_a_missing_shard(tmp_path: Path) -> None:
    files = sharded()
    del files["model-00002-of-00002.safetensors"]
    folder = write_model(tmp_path / "m", files=files)
    with pytest.raises(BrokenCheckpointError) as caught:
        profile(folder)
    assert str(caught.value) == (
        f"{folder}/model.safetensors.index.json: "
        "names the shard model-00002-of-00002.safetensors, and the file is missing."
    )
    assert caught.value.hint == "Download the missing shards, then repeat the command."


def test_series_without_index_has_a_gap(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", files={"model-00001-of-00002.safetensors": FIRST})
    with pytest.raises(BrokenCheckpointError, match=r"is one of 2 shards, and number 2 is missing\."):
        profile(folder)


def test_index_promises_a_tensor_that_is_not_there(tmp_path: Path) -> None:
    table = index({"ghost.weight": "a.safetensors"})
    files: dict[str, bytes | str] = {"a.safetensors": FIRST, "model.safetensors.index.json": table}
    with pytest.raises(
        BrokenCheckpointError, match=r"promises the tensor ghost.weight in a.safetensors, and it is not there"
    ):
        profile(write_model(tmp_path / "m", files=files))


@pytest.mark.parametrize("target", ["../../etc/passwd", "sub/x.safetensors", ".hidden"])
def test_index_cannot_lead_out_of_the_folder(tmp_path: Path, target: str) -> None:
    files = {"model.safetensors.index.json": index({"w": target})}
    with pytest.raises(BrokenCheckpointError, match="which is no file of this folder"):
        profile(write_model(tmp_path / "m", files=files))


def test_index_that_is_no_json(tmp_path: Path) -> None:
    with pytest.raises(BrokenCheckpointError, match=r"model.safetensors.index.json: not valid JSON"):
        profile(write_model(tmp_path / "m", files={"model.safetensors.index.json": "{"}))


def test_both_single_file_and_index(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", files={**sharded(), "model.safetensors": safetensors_bytes(LLAMA_SHAPES)})
    found = profile(folder)
    stray = next(finding for finding in found.findings if finding.code == "weights.stray")
    assert stray.source == "model.safetensors" and "model.safetensors.index.json does not name it" in stray.message
    assert found.tensors.parameters == LLAMA_PARAMETERS


def test_safetensors_before_bin(tmp_path: Path) -> None:
    files = {
        "model.safetensors": safetensors_bytes(LLAMA_SHAPES),
        "pytorch_model.bin": torch_bytes(LLAMA_SHAPES),
        "training_args.bin": b"not a checkpoint",
    }
    found = profile(write_model(tmp_path / "m", files=files))
    assert found.tensors.format == "safetensors" and "weights.formats" in codes(found)
    assert found.dependencies.extras == ()


def test_bin_alone_needs_a_conversion(tmp_path: Path) -> None:
    found = profile(write_model(tmp_path / "m", files={"pytorch_model.bin": torch_bytes(LLAMA_SHAPES)}))
    assert found.tensors.format == "pytorch" and found.tensors.parameters == LLAMA_PARAMETERS
    assert found.dependencies.extras == ("convert",) and "weights.convert" in codes(found)
    assert found.memory.weight_bytes == 4 * LLAMA_PARAMETERS
    assert found.memory.served_weight_bytes == 2 * LLAMA_PARAMETERS


def test_consolidated_copy_is_not_counted_twice(tmp_path: Path) -> None:
    files = {"consolidated.safetensors": FIRST, "model.safetensors": safetensors_bytes(LLAMA_SHAPES)}
    assert profile(write_model(tmp_path / "m", files=files)).tensors.parameters == LLAMA_PARAMETERS


def test_same_tensor_in_two_files(tmp_path: Path) -> None:
    files = {"a.safetensors": FIRST, "b.safetensors": safetensors_bytes(LLAMA_SHAPES)}
    found = profile(write_model(tmp_path / "m", files=files))
    twice = next(finding for finding in found.findings if finding.code == "weights.twice")
    assert twice.message == (
        "2 tensors are stored twice: model.embed_tokens.weight is in a.safetensors and in b.safetensors."
    )


def test_no_weights_is_a_blocker(tmp_path: Path) -> None:
    found = profile(write_model(tmp_path / "m", files={"model.onnx": b"x"}))
    none = next(finding for finding in found.findings if finding.code == "weights.none")
    assert none.level.value == "blocker" and "only model.onnx, a format that vLLM does not load" in none.message


def test_several_ggufs_beside_a_config(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", files={"a.gguf": gguf_llama(), "b.gguf": gguf_llama()})
    with pytest.raises(UserError, match="holds 2 GGUF models and no other weights"):
        profile(folder)


def test_eighty_shards(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {}
    for number in range(1, 81):
        shapes = {f"model.layers.{number}.mlp.experts.{expert}.w1.weight": (4, 4) for expert in range(300)}
        files[f"model-{number:05d}-of-00080.safetensors"] = safetensors_bytes(shapes)
    found = profile(write_model(tmp_path / "m", files=files))
    assert (len(found.tensors.files), found.tensors.tensors) == (80, 24_000)
    assert found.tensors.parameters == 24_000 * 16


def renamed(weight_map: dict[str, str]) -> dict[str, bytes | str]:
    """Two shards whose index still has the names of another split."""
    return {**sharded(), "model.safetensors.index.json": index(weight_map)}


def test_stale_index_whose_tensors_are_all_there(tmp_path: Path) -> None:
    names = {name: f"model-0000{number}-of-00004.safetensors" for number, name in enumerate(LLAMA_SHAPES, 1)}
    found = profile(write_model(tmp_path / "m", files=renamed(names)))
    (told,) = [finding for finding in found.findings if finding.code == "weights.stale-index"]
    assert told.level is Level.BLOCKER and "names 4 files that are missing" in told.message
    assert found.tensors.parameters == LLAMA_PARAMETERS and len(found.tensors.files) == 2


def test_stale_index_and_lost_tensors(tmp_path: Path) -> None:
    names = {name: f"model-0000{number}-of-00005.safetensors" for number, name in enumerate([*LLAMA_SHAPES, "lost"], 1)}
    with pytest.raises(BrokenCheckpointError) as caught:
        profile(write_model(tmp_path / "m", files=renamed(names)))
    listed = ", ".join(f"model-0000{number}-of-00005.safetensors" for number in range(1, 6))
    assert f"names 5 shards that are missing: {listed}." in str(caught.value)


def test_index_of_consolidated_shards(tmp_path: Path) -> None:
    one, two = "consolidated-00001-of-00002.safetensors", "consolidated-00002-of-00002.safetensors"
    table = index(dict.fromkeys(NAMES[:2], one) | dict.fromkeys(NAMES[2:], two))
    files: dict[str, bytes | str] = {one: FIRST, two: SECOND, "consolidated.safetensors.index.json": table}
    found = profile(write_model(tmp_path / "m", files=files))
    assert [file.name for file in found.tensors.files] == [one, two]


@pytest.mark.parametrize("with_config", [True, False])
def test_ggml_dump(tmp_path: Path, with_config: bool) -> None:
    folder = write_model(tmp_path / "m", files={"llama-7b.ggmlv3.q4_0.bin": b"tjgg\x03\x00\x00\x00" + bytes(64)})
    if not with_config:
        (folder / "config.json").unlink()
    with pytest.raises(UnsupportedModelError, match=r"q4_0\.bin is a GGML file, the format before GGUF") as caught:
        profile(folder)
    assert caught.value.exit_code == 4 and "GGUF" in str(caught.value.hint)
