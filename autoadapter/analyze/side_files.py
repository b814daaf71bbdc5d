"""The small files that axes read, fetched once."""

from autoadapter.analyze.axes.quantization import HF_QUANT_CONFIG
from autoadapter.analyze.sources import Repository
from autoadapter.analyze.tokenizer.chat_template import TEMPLATE_FILES
from autoadapter.analyze.tokenizer.files import KNOWN_FILES

CONFIG = "config.json"
NAMES = (CONFIG, "generation_config.json", HF_QUANT_CONFIG, "README.md", *TEMPLATE_FILES, *KNOWN_FILES)


def side_file_names(repository: Repository) -> tuple[str, ...]:
    """Names of the side files that a repository has, sorted."""
    return tuple(name for name in repository.files() if name in NAMES or name.endswith(".tiktoken"))


def read_side_files(repository: Repository) -> dict[str, bytes]:
    """All side files of a repository by name."""
    return {name: repository.read(name) for name in side_file_names(repository)}
