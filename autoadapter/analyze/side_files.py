"""The small files that axes read, fetched once."""

from autoadapter.analyze.quantization.stated import HF_QUANT_CONFIG
from autoadapter.analyze.sources import Repository
from autoadapter.analyze.sources.repository import is_named_template
from autoadapter.analyze.tokenizer.chat_template import TEMPLATE_FILES
from autoadapter.analyze.tokenizer.document import FILE as TOKENIZER_JSON
from autoadapter.analyze.tokenizer.files import is_tokenizer_file

CONFIG = "config.json"
PROCESSORS = ("preprocessor_config.json", "processor_config.json")
NAMES = (CONFIG, "generation_config.json", HF_QUANT_CONFIG, "README.md", *PROCESSORS, *TEMPLATE_FILES)
UNREAD = ("merges.txt", TOKENIZER_JSON)
"""Of the first only that it is there matters; the second is large, and read where it is parsed."""


def side_file_names(repository: Repository) -> tuple[str, ...]:
    """Names of the side files that a repository has, sorted."""
    return tuple(
        name for name in repository.files() if name in NAMES or is_tokenizer_file(name) or is_named_template(name)
    )


def read_side_files(repository: Repository) -> dict[str, bytes]:
    """Side files of a repository by name, but for a few that are read later or not at all."""
    return {name: repository.read(name) for name in side_file_names(repository) if name not in UNREAD}
