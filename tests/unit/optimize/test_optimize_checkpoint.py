"""Headers, hashes, companions, and the post-check that catches a silent no-op."""

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from autoadapter.errors import BrokenCheckpointError, WorkerError
from autoadapter.optimize.backend import Job
from autoadapter.optimize.checkpoint import (
    copy_companions,
    hash_files,
    merge_config,
    open_permissions,
    read_headers,
    weight_bytes,
)
from autoadapter.optimize.postcheck import require_quantized
from tests.unit.optimize.optimize_builders import make_profile, make_scheme

Layout = dict[str, tuple[str, tuple[int, ...]]]
WIDTHS = {"BF16": 2, "I8": 1, "F8_E4M3": 1, "I32": 4, "F32": 4, "I64": 8}


def write_safetensors(path: Path, tensors: Layout) -> None:
    """A file of zeros with the given dtypes and shapes, in the safetensors layout."""
    header: dict[str, object] = {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = math.prod(shape) * WIDTHS[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))


def test_headers_of_all_shards(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model-00001-of-00002.safetensors", {"a.weight": ("BF16", (4, 2))})
    write_safetensors(tmp_path / "model-00002-of-00002.safetensors", {"b.weight": ("I8", (3,))})
    headers = read_headers(tmp_path)
    assert {name: (tensor.dtype, tensor.elements) for name, tensor in headers.items()} == {
        "a.weight": ("BF16", 8),
        "b.weight": ("I8", 3),
    }
    assert weight_bytes(tmp_path) == sum(path.stat().st_size for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:20], lambda data: b"", lambda data: b"\xff" * 99]
)
def test_damaged_files_are_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"a.weight": ("BF16", (4, 2))})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(BrokenCheckpointError, match=r"model\.safetensors"):
        read_headers(tmp_path)


def test_hashes_cover_visible_files_only(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / ".autoadapter.json").write_text("{}")
    (tmp_path / "onnx").mkdir()
    assert hash_files(tmp_path) == (("config.json", 2, hashlib.sha256(b"{}").hexdigest()),)


def test_companions_travel_and_weights_do_not(tmp_path: Path) -> None:
    source, output = tmp_path / "source", tmp_path / "output"
    source.mkdir()
    output.mkdir()
    for name in ("tokenizer.json", "chat_template.jinja", "generation_config.json"):
        (source / name).write_text(f"source {name}\r\n")
    for name in ("pytorch_model.bin", "model.safetensors.index.json", "x.gguf", "config.json", ".hidden"):
        (source / name).write_text("no")
    (output / "generation_config.json").write_text("rewritten by a tool")
    copy_companions(source, output)
    assert {path.name for path in output.iterdir()} == {
        "tokenizer.json",
        "chat_template.jinja",
        "generation_config.json",
    }
    assert (output / "generation_config.json").read_bytes() == b"source generation_config.json\r\n"


@pytest.mark.parametrize(("key", "expected"), [("torch_dtype", "torch_dtype"), ("dtype", "dtype")])
def test_config_keeps_what_the_model_said(tmp_path: Path, key: str, expected: str) -> None:
    source, output = tmp_path / "source", tmp_path / "output"
    source.mkdir()
    output.mkdir()
    original = {"architectures": ["A"], "tie_word_embeddings": True, key: "float32", "rope_theta": 5}
    (source / "config.json").write_text(json.dumps(original))
    (output / "config.json").write_text(json.dumps({"rope_parameters": {}, "quantization_config": {"q": 1}}))
    merge_config(source, output, "bfloat16")
    merged = json.loads((output / "config.json").read_text())
    assert merged == original | {expected: "bfloat16", "quantization_config": {"q": 1}}


def test_weights_become_readable(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.touch(mode=0o600)
    open_permissions(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o644


LAYER = "model.layers.0.mlp.up_proj"
PLAIN: Layout = {
    "model.embed_tokens.weight": ("BF16", (64, 32)),
    f"{LAYER}.weight": ("BF16", (64, 32)),
    "lm_head.weight": ("BF16", (64, 32)),
}
INT8 = PLAIN | {f"{LAYER}.weight": ("I8", (64, 32)), f"{LAYER}.weight_scale": ("BF16", (64, 1))}
PACKED: Layout = {
    **{name: tensor for name, tensor in PLAIN.items() if LAYER not in name},
    f"{LAYER}.weight_packed": ("I32", (64, 4)),
    f"{LAYER}.weight_scale": ("BF16", (64, 1)),
    f"{LAYER}.weight_shape": ("I64", (2,)),
}


def check(
    tmp_path: Path,
    written: Layout,
    *,
    scheme: str = "int8_w8a8",
    targets: tuple[str, ...] = (LAYER,),
    off: float = 1.0,
    tied: bool = False,
) -> None:
    source, output = tmp_path / "source", tmp_path / "output"
    write_safetensors(source / "model.safetensors", PLAIN)
    write_safetensors(output / "model.safetensors", written)
    profile = make_profile(source)
    embedding = profile.embedding.model_copy(update={"tied": tied})
    job = Job(
        profile=profile.model_copy(update={"embedding": embedding}),
        scheme=make_scheme(scheme),
        source=source,
        output=output,
        logs=tmp_path,
        python=Path("python"),
        calibration=tmp_path,
        samples=1,
    )
    require_quantized(job, list(targets), int(weight_bytes(output) * off))


@pytest.mark.parametrize(("written", "scheme"), [(INT8, "int8_w8a8"), (PACKED, "w4a16_gptq")])
def test_a_quantized_checkpoint_passes(tmp_path: Path, written: Layout, scheme: str) -> None:
    check(tmp_path, written, scheme=scheme)


def test_a_silent_no_op_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=f"{LAYER} is not quantized"):
        check(tmp_path, PLAIN)


def test_no_target_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="no layer was targeted"):
        check(tmp_path, PLAIN, targets=())


def test_a_missing_scale_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="has no scale"):
        check(tmp_path, PLAIN | {f"{LAYER}.weight": ("I8", (64, 32))})


def test_another_storage_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="is not quantized"):
        check(tmp_path, INT8, scheme="fp8_dynamic")


def test_a_quantized_head_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="lm_head was quantized although"):
        check(tmp_path, INT8 | {"lm_head.weight_scale": ("BF16", (64, 1))})


def test_lost_and_new_modules_are_errors(tmp_path: Path) -> None:
    doubled = {("language_model." + name if "embed" in name else name): tensor for name, tensor in INT8.items()}
    with pytest.raises(WorkerError, match=r"model\.embed_tokens is lost \(and 1 more\)"):
        check(tmp_path, doubled)


@pytest.mark.parametrize("tied", [True, False])
def test_only_a_tied_head_may_go(tmp_path: Path, tied: bool) -> None:
    headless = {name: tensor for name, tensor in INT8.items() if "lm_head" not in name}
    if tied:
        check(tmp_path, headless, tied=True)
    else:
        with pytest.raises(WorkerError, match="lm_head is lost"):
            check(tmp_path, headless)


@pytest.mark.parametrize("off", [0.8, 1.3])
def test_an_unexpected_size_is_an_error(tmp_path: Path, off: float) -> None:
    with pytest.raises(WorkerError, match="were expected"):
        check(tmp_path, INT8, off=off)
