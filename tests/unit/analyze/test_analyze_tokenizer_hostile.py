"""Whatever a tokenizer file holds: traits with findings, or one clear error; never a traceback."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from autoadapter.analyze.axes.remote_code import read_remote_code
from autoadapter.analyze.axes.tokenizer import read_tokenizer
from autoadapter.analyze.sources import LocalFolder
from autoadapter.analyze.stage import gather
from autoadapter.artifacts.model_profile import RemoteCode, TokenizerTraits
from autoadapter.errors import AutoadapterError
from tests.unit.analyze.analyze_files import LLAMA_SHAPES, safetensors_bytes, write_model

FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tekken.json",
    "vocab.json", "generation_config.json", "chat_template.json",
)  # fmt: skip
KEYS = (
    "model", "vocab", "merges", "type", "added_tokens", "id", "content", "special", "normalized", "normalizer",
    "post_processor", "processors", "single", "SpecialToken", "Sequence", "cls", "sep", "padding", "direction",
    "bos_token", "eos_token", "add_bos_token", "chat_template", "name", "template", "added_tokens_decoder", "0", "-1",
    "additional_special_tokens", "extra_special_tokens", "eos_token_id", "auto_map", "AutoTokenizer", "config",
    "default_vocab_size", "special_tokens", "rank", "token_str", "model_max_length", "padding_side", "tokenizer_class",
)  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["<s>", "BPE", "Unigram", "TemplateProcessing", "x.Y", "a--b.C", "{% if %}", "{{ x }}", "left"])
    | st.text(max_size=4)
)
ANY: st.SearchStrategy[JsonValue] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS), ANY, max_size=6)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(st.sampled_from(FILES), OBJECTS, min_size=1, max_size=4))
def test_any_json(tmp_path: Path, files: dict[str, JsonValue]) -> None:
    for name in FILES:
        (tmp_path / name).unlink(missing_ok=True)
    written: dict[str, bytes | str] = {name: json.dumps(document) for name, document in files.items()}
    folder = write_model(tmp_path, None, {"model.safetensors": safetensors_bytes(LLAMA_SHAPES), **written})
    try:
        evidence = gather(LocalFolder(folder))
        traits, remote = read_tokenizer(evidence).value, read_remote_code(evidence).value
    except AutoadapterError as error:
        assert str(error)
        return
    assert isinstance(traits, TokenizerTraits)
    assert TokenizerTraits.model_validate_json(traits.model_dump_json()) == traits
    assert remote is None or isinstance(remote, RemoteCode)


@pytest.mark.parametrize("name", ["tokenizer.model", "tiktoken.model", "x.tiktoken", "spiece.model", "vocab.txt"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=60) | st.just(b"QQ== 99999999999999999999"))
def test_any_bytes(tmp_path: Path, name: str, data: bytes) -> None:
    folder = write_model(tmp_path, None, {"model.safetensors": safetensors_bytes(LLAMA_SHAPES), name: data})
    traits = read_tokenizer(gather(LocalFolder(folder))).value
    assert isinstance(traits, TokenizerTraits)
    assert traits.slow_only
