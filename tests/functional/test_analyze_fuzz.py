"""Hostile models: any files give a profile with findings or one of our errors, in little time and little memory.

`AUTOADAPTER_FUZZ_EXAMPLES=5000` runs each test that long, with fresh random numbers.
"""

import copy
import io
import json
import os
import resource
import struct
import tempfile
import time
import tracemalloc
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_zoo import FAMILIES, SIDE_FILES

from autoadapter.analyze import analyze, input_digest, resolve_model
from autoadapter.artifacts import ModelProfile, Sizing
from autoadapter.errors import AutoadapterError
from autoadapter.hardware import parse_hardware
from autoadapter.plan import SizingRequest, size_model
from tests.unit.analyze.analyze_files import torch_bytes

EXAMPLES = int(os.environ.get("AUTOADAPTER_FUZZ_EXAMPLES", "0"))
MOST_SECONDS = 5.0
MOST_MB = 200
fuzz = settings(
    max_examples=EXAMPLES or 60,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module", autouse=True)
def largest_before() -> int:
    """KiB that the process had at its largest before the first test of this file."""
    return _largest_kib()


def _largest_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


NUMBERS = st.sampled_from(
    [
        *(0, 1, -1, 2, 3, 7, 64, 10**6, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, 10**400),
        *(0.5, -0.5, 1e308, 1e-308, float("nan"), float("inf"), float("-inf")),
    ]
)
TEXTS = st.one_of(
    st.sampled_from(
        ["", "full_attention", "M*-E", "float16", "yarn", "\x00", "🦙" * 10, "a" * 10_000, "../../etc/passwd"]
    ),
    st.text(max_size=12),
)
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
RUBBISH = st.one_of(
    PLAIN,
    st.lists(PLAIN, max_size=4),
    st.dictionaries(st.text(max_size=6), PLAIN, max_size=3),
    st.recursive(
        PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2), max_leaves=6
    ),
)


def paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*before, key)
        yield from paths(inner, (*before, key))


KEYS = sorted({key for config in FAMILIES.values() for path in paths(config) for key in path if isinstance(key, str)})


@st.composite
def mutated(draw: st.DrawFn, document: dict[str, Any], keys: Sequence[str] = ()) -> dict[str, Any]:
    """A document with up to five faults: wrong values, lost keys, keys of other families."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 5))):
        places = list(paths(changed))
        if not places or (keys and draw(st.booleans())):
            changed[draw(st.sampled_from(list(keys) or ["x"]))] = draw(RUBBISH)
            continue
        *outer, key = draw(st.sampled_from(places))
        holder = changed
        for part in outer:
            holder = holder[part]
        if isinstance(holder, dict) and draw(st.integers(0, 3)) == 0:
            del holder[key]
        else:
            holder[key] = draw(RUBBISH)
    return changed


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def survive(path: Path, platform: Any = "cuda") -> ModelProfile | None:
    """The profile, None for one of our errors; anything else fails the test."""
    began = time.process_time()
    profile = None
    try:
        ref = resolve_model(str(path))
        profile = analyze(ref, vllm_version="0.32.0", platform=platform)
        assert ModelProfile.model_validate_json(profile.to_json()) == profile
        input_digest(ref)
        sizing = size_model(profile, SizingRequest(hardware=parse_hardware("h200:8"), vllm_version="0.32.0"))
        assert Sizing.model_validate_json(sizing.to_json()) == sizing
    except AutoadapterError as error:
        assert str(error) and error.exit_code in (2, 4)
    assert time.process_time() - began < MOST_SECONDS
    return profile


@fuzz
@given(st.data())
def test_any_config(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FAMILIES)))
    config = data.draw(mutated(FAMILIES[name], KEYS))
    with folder() as path:
        (path / "config.json").write_text(json.dumps(config))
        survive(path, data.draw(st.sampled_from(["cuda", "cpu"])))


@fuzz
@given(st.data())
def test_any_side_files(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FAMILIES)))
    with folder() as path:
        (path / "config.json").write_text(json.dumps(FAMILIES[name]))
        for file in data.draw(st.lists(st.sampled_from(sorted(SIDE_FILES)), unique=True, min_size=1)):
            (path / file).write_text(json.dumps(data.draw(mutated(SIDE_FILES[file]))))
        survive(path)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_each_family_is_understood(tmp_path: Path, name: str) -> None:
    """The zoo itself is no rubbish: every member gives a profile."""
    (tmp_path / "config.json").write_text(json.dumps(FAMILIES[name]))
    assert survive(tmp_path) is not None


NAMES = (
    "model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
    "model.layers.1.mlp.experts.3.up_proj.weight", "model.layers.1.mlp.experts.3.up_proj.weight_scale_inv",
    "model.layers.3.mlp.gate_up_proj.qweight", "lm_head.weight", "visual.blocks.0.attn.qkv.weight", "",
    "model.layers.99999999999.mlp.down_proj.weight", "model.layers.0.linear_attn.A_log", "blk.0.attn_q.weight",
)  # fmt: skip
ROWS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["BF16", "F32", "F8_E4M3", "U8", "I32", "F4", "BOGUS", 3, None]),
        "shape": st.lists(st.sampled_from([0, 1, 2, 64, 256, -1, 2**63, 10**30, 1.5, "x", True]), max_size=4),
        "data_offsets": st.lists(st.sampled_from([0, 2, 4, 128, 2**40, 2**64, -2, 1.0, None]), max_size=3),
    }
)


@st.composite
def sound_rows(draw: st.DrawFn) -> dict[str, Any]:
    """Entries whose shapes and offsets agree."""
    header: dict[str, Any] = {}
    position = 0
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6)):
        dtype, size = draw(st.sampled_from([("BF16", 2), ("F32", 4), ("F8_E4M3", 1), ("U8", 1), ("I32", 4)]))
        shape = draw(st.lists(st.sampled_from([0, 1, 2, 64, 128]), max_size=3))
        end = position + size
        for count in shape:
            end = position + (end - position) * count
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, end]}
        position = end
    return header


@fuzz
@given(st.data())
def test_any_safetensors(data: st.DataObject) -> None:
    config = FAMILIES[data.draw(st.sampled_from(sorted(FAMILIES)))]
    rows = st.dictionaries(st.sampled_from(NAMES), ROWS | RUBBISH, max_size=4)
    sound = data.draw(st.integers(0, 9)) < 6
    header: dict[str, Any] = data.draw(sound_rows() if sound else rows | sound_rows().flatmap(mutated))
    text = json.dumps(header).encode()
    if not sound and data.draw(st.integers(0, 3)) == 0:
        text = text.replace(b"}", b', "lm_head.weight": {}}', 1)
    lies = (0, 1, len(text) + 1, 10**8, 2**63, 2**64 - 1)
    length = len(text) if sound or data.draw(st.booleans()) else data.draw(st.sampled_from(lies))
    size = max(map(_end, header.values()), default=0) + (0 if sound else data.draw(st.sampled_from([0, 1, -1])))
    with folder() as path:
        (path / "config.json").write_text(json.dumps(config))
        with (path / "model.safetensors").open("wb") as file:
            file.write(struct.pack("<Q", length) + text)
            file.truncate(8 + len(text) + max(size, 0))
        if data.draw(st.booleans()):
            index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(header, "model.safetensors")}
            (path / "model.safetensors.index.json").write_text(json.dumps(data.draw(mutated(index))))
        survive(path)


def _end(row: object) -> int:
    """Where a row's data end, if it says so and a test can write that much."""
    offsets = row.get("data_offsets") if isinstance(row, dict) else None
    end = offsets[1] if isinstance(offsets, list) and len(offsets) == 2 else 0
    return end if type(end) is int and end < 2**26 else 0


TYPES = {4: "I", 5: "i", 6: "f", 7: "?", 10: "Q"}
GGUF_KEYS = (
    "general.architecture", "general.name", "general.alignment", "llama.block_count", "llama.embedding_length",
    "llama.attention.head_count", "llama.attention.head_count_kv", "llama.context_length", "llama.vocab_size",
    "llama.rope.scaling.type", "llama.expert_count", "tokenizer.ggml.model", "tokenizer.ggml.tokens",
    "tokenizer.ggml.eos_token_id", "tokenizer.ggml.token_type", "tokenizer.chat_template", "general.license",
)  # fmt: skip


@st.composite
def gguf_value(draw: st.DrawFn) -> bytes:
    """Type and value, lying now and then about a length."""
    lie = draw(st.sampled_from([0] * 12 + [1, 2**32, 2**62, 2**64 - 10]))
    kind = draw(st.sampled_from([4, 5, 6, 7, 8, 9, 10, 13]))
    if kind == 8:
        text = draw(st.sampled_from(["llama", "qwen2", "gpt2", "gemma3", "x", "{{ messages }}", "none"])).encode()
        return struct.pack("<IQ", 8, (len(text) + lie) % 2**64) + text
    if kind == 9:
        items = draw(st.lists(st.integers(0, 2**31), max_size=4))
        return struct.pack("<IIQ", 9, 4, (len(items) + lie) % 2**64) + struct.pack(f"<{len(items)}I", *items)
    code = TYPES.get(kind, "I")
    number = draw(st.sampled_from([0, 1, 2, 32, 64]))
    return struct.pack("<I" + code, kind, number)


@st.composite
def gguf(draw: st.DrawFn) -> bytes:
    """A file that may announce too much of everything."""
    keys = draw(st.lists(st.sampled_from(GGUF_KEYS), max_size=8))
    body = b"".join(struct.pack("<Q", len(key)) + key.encode() + draw(gguf_value()) for key in keys)
    tensors = draw(st.lists(st.sampled_from(NAMES), max_size=3))
    offset = 0
    for name in tensors:
        shape = draw(st.lists(st.sampled_from([1, 32, 64, 2**63]), min_size=1, max_size=5))
        kind = draw(st.sampled_from([0, 1, 2, 8, 12, 30, 99]))
        body += struct.pack("<Q", len(name)) + name.encode() + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        body += struct.pack("<IQ", kind, offset)
        offset += draw(st.sampled_from([0, 32, 4096, 2**62]))
    counts = [len(tensors), len(keys)]
    if draw(st.integers(0, 5)) == 0:
        counts[draw(st.integers(0, 1))] = draw(st.sampled_from([0, 10**6, 2**62, 2**64 - 1]))
    version = draw(st.sampled_from([3] * 8 + [1, 2, 0x03000000]))
    return b"GGUF" + struct.pack("<IQQ", version, *counts) + body + bytes(draw(st.sampled_from([0, 64, 20_000])))


@fuzz
@given(gguf(), st.booleans())
def test_any_gguf(content: bytes, beside_config: bool) -> None:
    with folder() as path:
        (path / "model.gguf").write_bytes(content)
        if beside_config:
            (path / "config.json").write_text(json.dumps(FAMILIES["llama"]))
        survive(path)


OPCODES = (
    b"\x80\x02", b"}", b"]", b")", b"(", b"t", b"u", b"s", b"a", b"e", b"q\x00", b"h\x00", b"Q", b"R", b"b", b"0", b"N",
    b"X\x01\x00\x00\x00w", b"J\x10\x00\x00\x00", b"\x8a\xff" + b"\x7f" * 255, b"K\x02", b"\x88", b"2", b"cos\nsystem\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nFloatStorage\n", b"ccollections\nOrderedDict\n",
    b"X\xff\xff\xff\x7f", b"\x8d" + b"\xff" * 8, b"\x8e" + b"\xff" * 7 + b"\x7f",
)  # fmt: skip
PICKLES = st.binary(max_size=80) | st.lists(st.sampled_from(OPCODES), max_size=30).map(b"".join)


@fuzz
@given(PICKLES, st.data())
def test_any_torch_archive(pickled: bytes, data: st.DataObject) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/data/0", bytes(64))
    whole = torch_bytes({"model.embed_tokens.weight": (8, 2), "lm_head.weight": (8, 2)})
    content = bytearray(buffer.getvalue() if data.draw(st.booleans()) else whole)
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with folder() as path:
        (path / "config.json").write_text(json.dumps(FAMILIES["llama"]))
        (path / "pytorch_model.bin").write_bytes(bytes(content))
        survive(path)


@fuzz
@given(st.sampled_from(["config.json", *sorted(SIDE_FILES)]), st.binary(max_size=200), st.integers(0, 2))
def test_files_that_are_no_json(name: str, content: bytes, depth: int) -> None:
    deep = (b"[" * 10**depth * 1000, b'{"a":' * 10**depth * 1000)[depth % 2]
    with folder() as path:
        (path / "config.json").write_text(json.dumps(FAMILIES["llama"]))
        (path / name).write_bytes(content or deep)
        survive(path)


def lying(**header: Any) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


def gguf_head(tensors: int = 0, keys: int = 0, body: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + body


ARRAY = struct.pack("<Q", 1) + b"k" + struct.pack("<II", 9, 4)
HUGE = {"dtype": "F32", "shape": [2**20, 2**20], "data_offsets": [0, 2**42]}
LIES = {
    "header longer than the file": struct.pack("<Q", 10**8),
    "header of exabytes": struct.pack("<Q", 2**63),
    "tensor of terabytes": lying(w=HUGE),
    "offset beyond the file": lying(w={"dtype": "F32", "shape": [1], "data_offsets": [2**62, 2**62 + 4]}),
    "gguf: tensors": gguf_head(tensors=2**40),
    "gguf: keys": gguf_head(keys=2**40),
    "gguf: array": gguf_head(keys=1, body=ARRAY + struct.pack("<Q", 2**40)),
    "gguf: tensors of nothing": gguf_head(tensors=2**28),
    "gguf: array that would fit": gguf_head(keys=1, body=ARRAY + struct.pack("<Q", 2**30)),
    "gguf: texts of nothing": gguf_head(keys=1, body=ARRAY[:-4] + struct.pack("<IQ", 8, 2**29)),
    "gguf: text": gguf_head(keys=1, body=struct.pack("<Q", 2**40)),
    "gguf: text of exabytes": gguf_head(keys=1, body=struct.pack("<Q", 2**64 - 1)),
}


@pytest.mark.parametrize("what", LIES)
def test_lies_are_refused_before_memory_is_taken(tmp_path: Path, what: str) -> None:
    """The file is large where it can be (a hole), so that only the parser's own limits stand in the way."""
    name = "model.gguf" if what.startswith("gguf") else "model.safetensors"
    (tmp_path / "config.json").write_text(json.dumps(FAMILIES["llama"]))
    with (tmp_path / name).open("wb") as file:
        file.write(LIES[what])
        file.truncate(2**33 if what.startswith("gguf") else len(LIES[what]))
    ref = resolve_model(str(tmp_path))
    tracemalloc.start()
    try:
        with pytest.raises(AutoadapterError):
            analyze(ref, vllm_version="0.32.0", platform="cpu")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * 2**20


def test_memory_stayed_small(largest_before: int) -> None:
    """Last in the file: what all of the above have added to this process at its largest."""
    assert _largest_kib() - largest_before < MOST_MB * 1024
