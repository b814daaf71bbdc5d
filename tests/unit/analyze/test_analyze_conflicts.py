"""Where files of one model disagree: each conflict names both sides."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import Finding, Level, ModelProfile
from tests.unit.analyze.analyze_files import LLAMA_SHAPES, safetensors_bytes, write_model


def profile(folder: Path) -> ModelProfile:
    return analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cpu")


def finding(found: ModelProfile, code: str) -> Finding:
    return next(finding for finding in found.findings if finding.code == code)


def tokenizer(*, size: int = 10, eos: str = "</s>", extra: tuple[str, ...] = ()) -> str:
    texts = ["<unk>", "<s>", "</s>", *(f"t{number}" for number in range(3, size - len(extra))), *extra]
    vocabulary = {text: number for number, text in enumerate(texts)}
    added = [{"id": vocabulary[text], "content": text, "special": True} for text in ("<s>", "</s>", *extra)]
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    return json.dumps({"added_tokens": added, "model": model, "decoder": {"type": "ByteLevel"}})


def model(folder: Path, config: dict[str, JsonValue] | None = None, **files: str) -> Path:
    named: dict[str, bytes | str] = {name.replace("__", "."): text for name, text in files.items()}
    return write_model(folder, config, {"model.safetensors": safetensors_bytes(LLAMA_SHAPES), **named})


CONFIG = json.dumps({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "padding_side": "left"})


def test_tokenizer_facts(tmp_path: Path) -> None:
    found = profile(
        model(
            tmp_path / "m",
            tokenizer__json=tokenizer(extra=("<|im_end|>",)),
            tokenizer_config__json=CONFIG,
            chat_template__jinja="{{ messages }}<|im_end|>",
            generation_config__json='{"eos_token_id": [2, 4]}',
        )
    ).tokenizer
    assert (found.kind, found.vocab_size, found.padding_side) == ("bpe-byte-level", 10, "left")
    roles = {(token.role, token.text, token.id) for token in found.special_tokens}
    assert roles == {("bos", "<s>", 1), ("eos", "</s>", 2), ("additional", "<|im_end|>", 9)}
    assert found.stop_token_ids == (2, 4, 9)
    assert (found.has_chat_template, found.chat_template_source) == (True, "chat_template.jinja")


def test_template_that_nobody_stops_at(tmp_path: Path) -> None:
    folder = model(
        tmp_path / "m",
        tokenizer__json=tokenizer(extra=("<|im_end|>",)),
        tokenizer_config__json=json.dumps(json.loads(CONFIG) | {"chat_template": "{{ x }}<|im_end|>"}),
    )
    told = finding(profile(folder), "tokenizer.turn-not-stop")
    assert told.message == "The chat template closes a turn with '<|im_end|>' (9), and no config stops there."


def test_eos_differs_between_configs(tmp_path: Path) -> None:
    folder = model(
        tmp_path / "m",
        {"eos_token_id": 3},
        tokenizer__json=tokenizer(),
        tokenizer_config__json=CONFIG,
        generation_config__json='{"eos_token_id": 4}',
    )
    found = profile(folder)
    told = finding(found, "tokenizer.eos-conflict")
    assert told.message == "eos_token_id is 3 in config.json and 4 in generation_config.json."
    assert told.source == "config.json:eos_token_id and generation_config.json:eos_token_id"
    assert finding(found, "tokenizer.eos-tokenizer").message == (
        "The tokenizer's eos token is 2, and the model's configs say 3, 4."
    )
    assert found.tokenizer.stop_token_ids == (2, 3, 4)


def test_vocabulary_beyond_the_embedding(tmp_path: Path) -> None:
    told = finding(profile(model(tmp_path / "m", tokenizer__json=tokenizer(size=12))), "tokenizer.vocab-larger")
    assert told.level is Level.BLOCKER
    assert told.message == "The tokenizer knows 12 tokens, and the embedding has 10 rows (vocab_size)."


def test_padded_vocabulary_is_fine(tmp_path: Path) -> None:
    told = finding(profile(model(tmp_path / "m", tokenizer__json=tokenizer(size=8))), "tokenizer.vocab-padded")
    assert told.level is Level.INFO


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"tokenizer.model": b"\x0a\x0e\x0a\x05<unk>"}, "sentencepiece"),
        ({"tokenizer.model": b"IQ== 0\nIg== 1\n"}, "tiktoken"),
        ({"qwen.tiktoken": b"IQ== 0\n"}, "tiktoken"),
        ({"vocab.txt": b"[PAD]\n[UNK]\nthe\n"}, "wordpiece"),
        ({"vocab.json": b'{"a": 0}', "merges.txt": b""}, "bpe-byte-level"),
        ({"tekken.json": b'{"config": {"default_vocab_size": 10}, "special_tokens": []}'}, "tekken"),
        ({"tokenizer.json": b'{"model": {"type": "Unigram", "vocab": [["a", -1.0]]}}'}, "unigram"),
        ({"tokenizer.json": b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}'}, "bpe"),
        ({"tokenizer_config.json": b'{"auto_map": {"AutoTokenizer": ["x.Y", null]}}'}, "custom"),
        ({}, "none"),
    ],
)
def test_tokenizer_kinds(tmp_path: Path, files: dict[str, bytes], kind: str) -> None:
    weights = {"model.safetensors": safetensors_bytes(LLAMA_SHAPES)}
    found = profile(write_model(tmp_path / "m", files=weights | files))
    assert found.tokenizer.kind == kind
    assert ("tokenizer.none" in {finding.code for finding in found.findings}) == (kind == "none")


def test_config_of_another_model(tmp_path: Path) -> None:
    told = finding(profile(model(tmp_path / "m", {"num_key_value_heads": 4})), "attention.shape-conflict")
    assert told.level is Level.BLOCKER
    assert told.message == (
        "model.layers.0.self_attn.k_proj.weight has 128 rows, and the config says 4 KV heads of 64."
    )


def test_embedding_with_too_few_rows(tmp_path: Path) -> None:
    told = finding(profile(model(tmp_path / "m", {"vocab_size": 32})), "embedding.rows")
    assert told.message == "vocab_size is 32, and model.embed_tokens.weight has 10 rows."


def test_untied_head_that_is_not_there(tmp_path: Path) -> None:
    shapes = {name: shape for name, shape in LLAMA_SHAPES.items() if name != "lm_head.weight"}
    weights = {"model.safetensors": safetensors_bytes(shapes)}
    found = profile(write_model(tmp_path / "untied", files=weights))
    assert finding(found, "embedding.no-head").level is Level.BLOCKER
    tied = profile(write_model(tmp_path / "tied", {"tie_word_embeddings": True}, weights))
    assert tied.embedding.tied and "embedding.no-head" not in {finding.code for finding in tied.findings}


def test_tied_head_that_is_stored_counts_once(tmp_path: Path) -> None:
    found = profile(model(tmp_path / "m", {"tie_word_embeddings": True}))
    assert found.tensors.parameters == 80 + 1024 + 128
    assert found.memory.weight_bytes == 2 * (80 + 1024 + 128 + 80)
    assert found.memory.served_weight_bytes == 2 * (80 + 1024 + 128)
    assert finding(found, "embedding.tied-head").level is Level.INFO


def test_the_tie_is_the_language_models(tmp_path: Path) -> None:
    """A wrapper's class default must not beat text_config."""
    config: dict[str, JsonValue] = {
        "architectures": ["Mistral3ForConditionalGeneration"],
        "model_type": "mistral3",
        "text_config": {"hidden_size": 8, "num_hidden_layers": 1, "tie_word_embeddings": True},
        "tie_word_embeddings": False,
    }
    assert profile(model(tmp_path / "m", config)).embedding.tied


PACKED = {
    "model.embed_tokens.weight": (10, 8),
    "model.layers.0.mlp.gate_proj.qweight": (1, 16),
}


def test_packed_weights_count_as_what_they_hold(tmp_path: Path) -> None:
    quantized: dict[str, JsonValue] = {
        "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 8},
        "tie_word_embeddings": True,
    }
    files = {
        "a.safetensors": safetensors_bytes({"model.layers.0.mlp.gate_proj.qweight": (1, 16)}, "I32", 4),
        "b.safetensors": safetensors_bytes({"model.layers.0.mlp.gate_proj.scales": (1, 16)}, "F16"),
        "c.safetensors": safetensors_bytes({"model.embed_tokens.weight": (10, 8)}, "F16"),
    }
    found = profile(write_model(tmp_path / "m", quantized, files))
    assert found.tensors.parameters == 16 * 8 + 80
    assert found.memory.served_weight_bytes == found.memory.weight_bytes == 64 + 32 + 160
    assert found.tensors.parameters_by_dtype == {"I32": 16, "F16": 96}


def test_packed_weights_without_a_config(tmp_path: Path) -> None:
    files = {"a.safetensors": safetensors_bytes({"model.layers.0.mlp.gate_proj.qweight": (1, 16)}, "I32", 4)}
    told = finding(profile(write_model(tmp_path / "m", files=files)), "quantization.unexplained")
    assert told.level is Level.BLOCKER


def test_quantization_config_without_scales(tmp_path: Path) -> None:
    config: dict[str, JsonValue] = {"quantization_config": {"quant_method": "awq", "bits": 4}}
    told = finding(profile(model(tmp_path / "m", config)), "quantization.not-there")
    assert told.message == "The config says awq, and the checkpoint stores no scales: the weights are not quantized."
