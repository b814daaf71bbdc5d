"""Tokenizer files of every kind, and what they say about the two ends of a text."""

import base64
import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import Finding, Level, ModelProfile
from autoadapter.engine import EngineTarget
from autoadapter.errors import UserError
from tests.unit.analyze.analyze_files import LLAMA_SHAPES, gguf_llama, safetensors_bytes, write_model
from tests.unit.analyze.test_analyze_tokenizer_documents import sentencepiece

CHAT = "{{ bos_token }}{% for m in messages %}{{ m.role + m.content }}{% endfor %}"


def profile(folder: Path, transformers: str | None = None) -> ModelProfile:
    target: str | EngineTarget = "0.32.0"
    if transformers:
        target = EngineTarget(Path("/nowhere/python"), "0.32.0", "vllm", {"transformers": transformers})
    return analyze(resolve_model(str(folder)), vllm_version=target, platform="cpu")


def model(folder: Path, files: dict[str, JsonValue | bytes], config: dict[str, JsonValue] | None = None) -> Path:
    written = {name: value if isinstance(value, bytes | str) else json.dumps(value) for name, value in files.items()}
    weights = {} if "consolidated.safetensors" in files else {"model.safetensors": safetensors_bytes(LLAMA_SHAPES)}
    return write_model(folder, config, {**weights, **written})


def codes(found: ModelProfile) -> dict[str, Finding]:
    return {finding.code: finding for finding in found.findings}


def fast(*, post: JsonValue = None, **more: JsonValue) -> dict[str, JsonValue]:
    texts = ["<unk>", "<s>", "</s>", *(f"t{number}" for number in range(3, 10))]
    added: list[JsonValue] = [{"id": number, "content": texts[number], "special": True} for number in (1, 2)]
    vocabulary: dict[str, JsonValue] = {text: number for number, text in enumerate(texts)}
    document: dict[str, JsonValue] = {
        "added_tokens": added,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        "decoder": {"type": "ByteLevel"},
        "post_processor": post,
    }
    return document | more


TEMPLATE_PROCESSING: JsonValue = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
}
CONFIG: dict[str, JsonValue] = {"bos_token": "<s>", "eos_token": "</s>"}


def test_sentencepiece_alone_is_slow_and_counted(tmp_path: Path) -> None:
    files: dict[str, JsonValue | bytes] = {
        "tokenizer.model": sentencepiece("<unk>", "<s>", "</s>", "a"),
        "tokenizer_config.json": CONFIG | {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True},
    }
    found = profile(model(tmp_path / "m", files))
    tokenizer = found.tokenizer
    assert (tokenizer.kind, tokenizer.vocab_size, tokenizer.embedding_rows) == ("sentencepiece", 4, 10)
    assert (tokenizer.slow_only, tokenizer.tokenizer_class) == (True, "LlamaTokenizer")
    assert {(token.role, token.id) for token in tokenizer.special_tokens} == {("bos", 1), ("eos", 2)}
    assert (tokenizer.add_bos, tokenizer.add_eos) == (True, False)
    assert codes(found)["tokenizer.slow-only"].level is Level.INFO


def test_tiktoken_counts_its_ranks_and_added_tokens(tmp_path: Path) -> None:
    lines = b"".join(base64.b64encode(bytes([65 + number])) + b" %d\n" % number for number in range(6))
    config = CONFIG | {"added_tokens_decoder": {"8": {"content": "</s>"}}, "auto_map": {"AutoTokenizer": ["t.T", None]}}
    for name in ("tiktoken.model", "qwen.tiktoken", "tokenizer.model"):
        files: dict[str, JsonValue | bytes] = {name: lines, "tokenizer_config.json": config}
        tokenizer = profile(model(tmp_path / name, files)).tokenizer
        assert (tokenizer.kind, tokenizer.vocab_size, tokenizer.slow_only) == ("tiktoken", 9, True)
        assert 8 in tokenizer.stop_token_ids


TEKKEN: JsonValue = {
    "config": {"default_vocab_size": 10},
    "special_tokens": [
        {"rank": 0, "token_str": "<unk>"},
        {"rank": 1, "token_str": "<s>"},
        {"rank": 2, "token_str": "</s>"},
        {"rank": 3, "token_str": "[INST]"},
    ],
    "vocab": [{"rank": 0, "token_bytes": "QQ=="}],
}


def test_tekken_wins_beside_mistral_weights_alone(tmp_path: Path) -> None:
    weights = safetensors_bytes(LLAMA_SHAPES)
    both: dict[str, JsonValue | bytes] = {
        "tekken.json": TEKKEN,
        "tokenizer.json": fast(),
        "tokenizer_config.json": CONFIG,
    }
    assert profile(model(tmp_path / "hf", both)).tokenizer.kind == "bpe-byte-level"
    mistral: dict[str, JsonValue | bytes] = {**both, "consolidated.safetensors": weights, "model.safetensors": weights}
    found = profile(model(tmp_path / "mistral", mistral))
    assert (found.tokenizer.kind, found.tokenizer.vocab_size, found.tokenizer.slow_only) == ("tekken", 10, False)
    assert (found.tokenizer.add_bos, found.tokenizer.add_eos) == (True, False)
    assert {"[INST]"} == {token.text for token in found.tokenizer.special_tokens if token.role == "additional"}
    assert "tokenizer.no-template" not in codes(found)


def test_numbered_mistral_sentencepiece(tmp_path: Path) -> None:
    files: dict[str, JsonValue | bytes] = {"tokenizer.model.v7": sentencepiece("<unk>", "<s>", "</s>")}
    tokenizer = profile(model(tmp_path / "m", files)).tokenizer
    assert (tokenizer.kind, tokenizer.files, tokenizer.vocab_size) == ("sentencepiece", ("tokenizer.model.v7",), 3)


def test_custom_tokenizer_is_code(tmp_path: Path) -> None:
    config: JsonValue = {"auto_map": {"AutoTokenizer": ["tokenization_x.XTokenizer", None]}}
    found = profile(
        model(tmp_path / "m", {"tokenizer_config.json": config, "tokenization_x.py": b"class XTokenizer: ..."})
    )
    assert (found.tokenizer.kind, found.tokenizer.slow_only) == ("custom", True)
    assert codes(found)["tokenizer.slow-only"].level is Level.WARNING


def test_gguf_says_whether_it_adds_bos(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_llama())
    tokenizer = profile(path).tokenizer
    assert (tokenizer.kind, tokenizer.add_bos, tokenizer.template is not None) == ("gguf", None, True)


EDGES: dict[str, tuple[dict[str, JsonValue], JsonValue, tuple[bool, bool]]] = {
    "post-processor": ({}, TEMPLATE_PROCESSING, (True, False)),
    "no post-processor": ({}, None, (False, False)),
    "inside others": ({}, {"type": "Sequence", "processors": [{"type": "X"}, TEMPLATE_PROCESSING]}, (True, False)),
    "roberta": ({}, {"type": "RobertaProcessing", "cls": ["<s>", 1], "sep": ["</s>", 2]}, (True, True)),
    "another token": (
        {},
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}}]},
        (False, False),
    ),
    "the file decides": ({"add_bos_token": False}, TEMPLATE_PROCESSING, (True, False)),
    "the file decides, if only by silence": ({"add_eos_token": True}, None, (False, False)),
    "both say the same": ({"add_bos_token": True}, TEMPLATE_PROCESSING, (True, False)),
    "a token that does not exist": ({"add_bos_token": True, "bos_token": None}, None, (False, False)),
}  # fmt: skip


@pytest.mark.parametrize(("config", "post", "added"), EDGES.values(), ids=EDGES)
def test_what_is_added_to_a_text(
    tmp_path: Path, config: dict[str, JsonValue], post: JsonValue, added: tuple[bool, bool]
) -> None:
    files: dict[str, JsonValue | bytes] = {"tokenizer.json": fast(post=post), "tokenizer_config.json": CONFIG | config}
    found = profile(model(tmp_path / "m", files))
    assert (found.tokenizer.add_bos, found.tokenizer.add_eos) == added
    assert ("tokenizer.edges-conflict" in codes(found)) == (
        config in ({"add_bos_token": False}, {"add_eos_token": True})
    )


def test_two_bos_tokens(tmp_path: Path) -> None:
    files: dict[str, JsonValue | bytes] = {
        "tokenizer.json": fast(post=TEMPLATE_PROCESSING),
        "tokenizer_config.json": CONFIG | {"chat_template": CHAT},
    }
    found = profile(model(tmp_path / "m", files))
    assert found.tokenizer.double_bos
    assert "add_special_tokens false" in (codes(found)["tokenizer.double-bos"].hint or "")
    files["tokenizer.json"] = fast()
    alone = profile(model(tmp_path / "n", files))
    assert not alone.tokenizer.double_bos
    assert "tokenizer.double-bos" not in codes(alone)


def test_sides_and_lengths(tmp_path: Path) -> None:
    document = fast(truncation={"direction": "Left", "max_length": 8}, padding={"direction": "Right"})
    files: dict[str, JsonValue | bytes] = {
        "tokenizer.json": document,
        "tokenizer_config.json": CONFIG | {"padding_side": "left", "model_max_length": 1e30},
    }
    tokenizer = profile(model(tmp_path / "m", files)).tokenizer
    assert (tokenizer.padding_side, tokenizer.truncation_side) == ("left", "left")
    assert tokenizer.model_max_length is None
    files["tokenizer_config.json"] = CONFIG | {"truncation_side": "right", "model_max_length": 64}
    other = profile(model(tmp_path / "n", files)).tokenizer
    assert (other.padding_side, other.truncation_side, other.model_max_length) == ("right", "right", 64)


def test_stop_tokens_say_where_they_come_from(tmp_path: Path) -> None:
    files: dict[str, JsonValue | bytes] = {
        "tokenizer.json": fast(),
        "tokenizer_config.json": CONFIG | {"eos_token": "t9"},
        "generation_config.json": {"eos_token_id": [2, 4]},
    }
    tokenizer = profile(model(tmp_path / "m", files)).tokenizer
    assert tokenizer.stop_token_ids == (2, 4, 9)
    assert tokenizer.stop_sources == {"config.json": (2,), "generation_config.json": (2, 4), "tokenizer.json:eos": (9,)}


def test_nobody_says_what_ends_an_answer(tmp_path: Path) -> None:
    files: dict[str, JsonValue | bytes] = {"tokenizer.json": fast(), "tokenizer_config.json": {"bos_token": "<s>"}}
    assert "tokenizer.no-eos" in codes(profile(model(tmp_path / "m", files, {"eos_token_id": None})))
    assert "tokenizer.no-eos" not in codes(profile(model(tmp_path / "n", files)))


def test_ids_beyond_the_embedding(tmp_path: Path) -> None:
    files: dict[str, JsonValue | bytes] = {"tokenizer.json": fast(), "tokenizer_config.json": CONFIG}
    found = codes(profile(model(tmp_path / "m", files, {"pad_token_id": 10, "eos_token_id": [2, 11]})))
    assert found["tokenizer.id-outside"].message.startswith("eos_token_id 11 and pad_token_id 10 lies beyond")
    assert "tokenizer.id-outside" not in codes(profile(model(tmp_path / "n", files, {"pad_token_id": 9})))


def test_a_special_token_that_the_vocabulary_lacks(tmp_path: Path) -> None:
    config = CONFIG | {"pad_token": "<pad>"}
    found = codes(profile(model(tmp_path / "m", {"tokenizer.json": fast(), "tokenizer_config.json": config})))
    assert found["tokenizer.special-unknown"].message.startswith("pad '<pad>': not in the vocabulary")


def test_special_tokens_that_fall_to_pieces(tmp_path: Path) -> None:
    """B114: a normalizer that prepends sees `normalized` special tokens only behind a space."""
    added: JsonValue = [{"id": 1, "content": "<|assistant|>", "special": True, "normalized": True}]
    prepend: JsonValue = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}]}
    harmless: JsonValue = {"type": "NFC"}
    for normalizer, told in ((prepend, True), (harmless, False)):
        files: dict[str, JsonValue | bytes] = {"tokenizer.json": fast(added_tokens=added, normalizer=normalizer)}
        found = codes(profile(model(tmp_path / str(told), files)))
        assert ("tokenizer.special-normalized" in found) is told


def test_spaces_that_decoding_takes_away(tmp_path: Path) -> None:
    """B115: clean-up changes texts of a tokenizer that keeps every byte; WordPiece needs it."""
    config = CONFIG | {"clean_up_tokenization_spaces": True}
    files: dict[str, JsonValue | bytes] = {"tokenizer.json": fast(), "tokenizer_config.json": config}
    assert "tokenizer.spaces-cleaned" in codes(profile(model(tmp_path / "m", files)))
    words: JsonValue = {"model": {"type": "WordPiece", "vocab": {"a": 0}}}
    files["tokenizer.json"] = words
    assert "tokenizer.spaces-cleaned" not in codes(profile(model(tmp_path / "n", files)))


@pytest.mark.parametrize(
    ("transformers", "level"), [("4.57.1", Level.BLOCKER), ("5.1.0", Level.INFO), (None, Level.INFO)]
)
def test_a_class_of_transformers_5(tmp_path: Path, transformers: str | None, level: Level) -> None:
    """B106: saved by transformers 5 and served beside an older one."""
    config = CONFIG | {"tokenizer_class": "TokenizersBackend"}
    files: dict[str, JsonValue | bytes] = {"tokenizer.json": fast(), "tokenizer_config.json": config}
    found = codes(profile(model(tmp_path / "m", files), transformers))["tokenizer.class-v5"]
    assert found.level is level
    assert (transformers or "5") in found.message or level is Level.INFO


def test_no_template_anywhere(tmp_path: Path) -> None:
    """B110, B111: a warning for what answers in words; the sibling that has one is named."""
    files: dict[str, JsonValue | bytes] = {"tokenizer.json": fast(), "tokenizer_config.json": CONFIG}
    found = codes(profile(model(tmp_path / "m", files)))["tokenizer.no-template"]
    assert found.level is Level.WARNING
    assert "-it" in (found.hint or "")
    assert "--chat-template" in (found.hint or "")


def test_a_template_in_a_file_of_its_own_shadows_another(tmp_path: Path) -> None:
    """B109, and what lies beside it: two templates of which one is read."""
    files: dict[str, JsonValue | bytes] = {
        "tokenizer.json": fast(),
        "chat_template.jinja": CHAT.encode(),
        "tokenizer_config.json": CONFIG | {"chat_template": "{{ other }}"},
    }
    found = profile(model(tmp_path / "m", files))
    assert found.tokenizer.chat_template_source == "chat_template.jinja"
    assert "tokenizer_config.json" in codes(found)["tokenizer.template-shadowed"].message
    files["tokenizer_config.json"] = CONFIG | {"chat_template": CHAT}
    assert "tokenizer.template-shadowed" not in codes(profile(model(tmp_path / "n", files)))


def test_named_templates(tmp_path: Path) -> None:
    named: JsonValue = [{"name": "tool_use", "template": "{{ tools }}"}, {"name": "default", "template": CHAT}]
    files: dict[str, JsonValue | bytes] = {
        "tokenizer.json": fast(),
        "tokenizer_config.json": CONFIG | {"chat_template": named},
    }
    tokenizer = profile(model(tmp_path / "m", files)).tokenizer
    assert tokenizer.chat_templates == ("tool_use", "default")
    assert tokenizer.template is not None
    assert not tokenizer.template.tools


def test_a_template_that_is_no_jinja(tmp_path: Path) -> None:
    files: dict[str, JsonValue | bytes] = {"tokenizer.json": fast(), "chat_template.jinja": b"{% if %}"}
    found = profile(model(tmp_path / "m", files))
    assert found.tokenizer.template is None
    assert found.tokenizer.has_chat_template
    assert "is not valid Jinja" in codes(found)["tokenizer.template-broken"].message


def test_a_forced_think_template_is_told(tmp_path: Path) -> None:
    """B126: the answer holds the closing tag alone."""
    text = CHAT + "{% if add_generation_prompt %}<|assistant|>\n<think>\n{% endif %}"
    files: dict[str, JsonValue | bytes] = {"tokenizer.json": fast(), "chat_template.jinja": text.encode()}
    told = codes(profile(model(tmp_path / "m", files)))["tokenizer.forced-think"]
    assert "<think>" in told.message
    assert "--reasoning-parser" in (told.hint or "")


def test_a_model_in_mistrals_own_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text('{"dim": 4096}')
    (tmp_path / "tekken.json").write_text(json.dumps(TEKKEN))
    with pytest.raises(UserError, match="Mistral's own format") as told:
        resolve_model(str(tmp_path))
    assert "config.json" in (told.value.hint or "")
