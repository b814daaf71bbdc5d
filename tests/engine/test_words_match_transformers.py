"""What is read from files without transformers is what transformers itself says."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from autoadapter.analyze.dependencies import known_type, newest_transformers
from autoadapter.analyze.remote_code.installed import InstalledTransformers
from autoadapter.analyze.tokenizer.edges import edges
from autoadapter.analyze.tokenizer.template_traits import OPENED, read_template
from autoadapter.analyze.versions import older
from autoadapter.engine import EngineTarget, find_engine, run_worker
from autoadapter.engine.search_path import find_package, search_path
from tests.unit.analyze.test_analyze_tokenizer_templates import FORCED, FREE, SWITCHED

pytestmark = pytest.mark.engine

NAMES: dict[str, str] = {
    "transformers": "PreTrainedModel PretrainedConfig AutoModelForCausalLM AutoModelForVision2Seq LlamaPreTrainedModel "
    "LlamaTokenizerFast PreTrainedTokenizerFast DynamicCache HybridCache SlidingWindowCache GenerationMixin AdamW "
    "TFAutoModel AutoModelWithLMHead SiglipImageProcessorFast GPT2LMHeadModel ROPE_INIT_FUNCTIONS logging",
    "transformers.modeling_utils": "PreTrainedModel apply_chunking_to_forward",
    "transformers.pytorch_utils": "find_pruneable_heads_and_indices ALL_LAYERNORM_LAYERS Conv1D",
    "transformers.utils": "is_flash_attn_2_available is_torch_fx_available logging LossKwargs ModelOutput "
    "add_start_docstrings replace_return_docstrings is_flash_attn_greater_or_equal_2_10",
    "transformers.utils.import_utils": "is_torch_fx_available",
    "transformers.utils.generic": "OutputRecorder check_model_inputs",
    "transformers.cache_utils": "Cache HybridMambaAttentionDynamicCache",
    "transformers.modeling_rope_utils": "rope_config_validation dynamic_rope_update",
    "transformers.generation.utils": "GenerationMixin GreedySearchOutput",
    "transformers.tokenization_utils": "PreTrainedTokenizer AddedToken",
    "transformers.tokenization_utils_fast": "PreTrainedTokenizerFast",
    "transformers.models.llama.modeling_llama": "LlamaFlashAttention2 LlamaRMSNorm LLAMA_ATTENTION_CLASSES",
    "transformers.models.llama": "LlamaConfig",
    "transformers.models.qwen2.tokenization_qwen2_fast": "Qwen2TokenizerFast",
    "transformers.models.auto": "AutoModel",
    "transformers.image_processing_utils_fast": "BaseImageProcessorFast",
    "transformers.models.siglip.image_processing_siglip_fast": "SiglipImageProcessorFast",
    "transformers.deepspeed": "is_deepspeed_zero3_enabled",
    "transformers.onnx": "OnnxConfig",
    "transformers.file_utils": "ModelOutput",
}
PAIRS = [(module, name) for module, names in NAMES.items() for name in names.split()]


def processor(single: list[Any]) -> Any:
    pair = [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]
    tokens = {text: {"id": text, "ids": [number], "tokens": [text]} for number, text in ((1, "<s>"), (2, "</s>"))}
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens}


WORDS: Any = {"Sequence": {"id": "A", "type_id": 0}}
BOS, EOS = ({"SpecialToken": {"id": text, "type_id": 0}} for text in ("<s>", "</s>"))
PROCESSORS: tuple[Any, ...] = (None, processor([BOS, WORDS]), processor([BOS, WORDS, EOS]))
STATED: tuple[dict[str, JsonValue], ...] = (
    {},
    {"add_bos_token": True},
    {"add_bos_token": False, "add_eos_token": True},
)
CLASSES = ("PreTrainedTokenizerFast", "LlamaTokenizerFast", "Qwen2Tokenizer")


def tokenizers(folder: Path) -> list[tuple[Path, dict[str, JsonValue], dict[str, JsonValue]]]:
    """Folders with tokenizer_config.json and tokenizer.json of every combination."""
    made = []
    for number, (name, post, stated) in enumerate(itertools.product(CLASSES, PROCESSORS, STATED)):
        place = folder / str(number)
        place.mkdir()
        vocabulary: JsonValue = {text: index for index, text in enumerate(("<unk>", "<s>", "</s>", "a", "b"))}
        flags: dict[str, JsonValue] = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        added: JsonValue = [
            {"id": index, "content": text, "special": True, **flags} for index, text in ((1, "<s>"), (2, "</s>"))
        ]
        document: dict[str, JsonValue] = {
            "version": "1.0",
            "added_tokens": added,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": "<unk>"},
            "post_processor": post,
        }
        config: dict[str, JsonValue] = {"tokenizer_class": name, "bos_token": "<s>", "eos_token": "</s>", **stated}
        (place / "tokenizer.json").write_text(json.dumps(document))
        (place / "tokenizer_config.json").write_text(json.dumps(config))
        (place / "config.json").write_text('{"model_type": "llama"}')
        made.append((place, config, document))
    return made


CHATS: list[tuple[str, dict[str, Any]]] = [
    *((text, {}) for text in (*FORCED.values(), *FREE.values())),
    *((text, {switch: value}) for text, switch in SWITCHED.values() for value in (True, False)),
]


@pytest.fixture(scope="module")
def engine() -> EngineTarget:
    return find_engine()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, dict[str, JsonValue], dict[str, JsonValue]]]:
    return tokenizers(tmp_path_factory.mktemp("tokenizers"))


@pytest.fixture(scope="module")
def truth(
    engine: EngineTarget,
    made: list[tuple[Path, dict[str, JsonValue], dict[str, JsonValue]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    request = {"names": PAIRS, "folders": [str(place) for place, *_ in made], "text": "a", "chats": CHATS}
    script = Path(__file__).parent / "workers" / "words_oracle.py"
    log = tmp_path_factory.mktemp("logs") / "words.log"
    return run_worker(engine.python, script, request, log=log).result


def test_names_that_an_installation_has(engine: EngineTarget, truth: dict[str, Any]) -> None:
    folder = find_package("transformers", search_path(engine.python) or ())
    assert folder is not None
    lacking = InstalledTransformers(folder).lacking(PAIRS)
    real = {pair for pair, found in zip(PAIRS, truth["names"], strict=True) if not found}
    assert real
    assert lacking == real


def test_what_a_tokenizer_adds(
    made: list[tuple[Path, dict[str, JsonValue], dict[str, JsonValue]]], truth: dict[str, Any]
) -> None:
    said = [edges(config, document, "<s>", "</s>") for _, config, document in made]
    real = [(ids[:1] == [1], ids[-1:] == [2]) for ids in truth["ids"]]
    assert len(set(real)) == 3
    assert [(one.add_bos, one.add_eos) for one in said] == real


def test_prompts_that_open_thinking(truth: dict[str, Any]) -> None:
    real = {
        (text, str(more)): bool(OPENED.search(out)) for (text, more), out in zip(CHATS, truth["rendered"], strict=True)
    }
    for text in (*FORCED.values(), *FREE.values()):
        found, _ = read_template(text, None)
        assert found is not None
        assert real[text, "{}"] == found.forced_think
    for text, switch in SWITCHED.values():
        assert {real[text, str({switch: value})] for value in (True, False)} == {True, False}


def test_model_types_that_the_installed_release_knows(engine: EngineTarget, truth: dict[str, Any]) -> None:
    installed = engine.packages["transformers"]
    assert not older(newest_transformers(), installed), "run scripts/generate_transformers_versions.py"
    for model_type in truth["model_types"]:
        known = known_type(model_type)
        assert known is not None, model_type
        assert not older(installed, known.first), model_type
        assert known.last is None or not older(known.last, installed), model_type
