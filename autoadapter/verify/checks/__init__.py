"""The checks, one file each. The order starts each engine once: the reference's needs first, then the candidate's."""

from autoadapter.verify.checks.bench import BenchCheck
from autoadapter.verify.checks.code import CodeCheck
from autoadapter.verify.checks.load import LoadCheck
from autoadapter.verify.checks.memory import MemoryCheck
from autoadapter.verify.checks.parity import ParityCheck
from autoadapter.verify.checks.quality import QualityCheck
from autoadapter.verify.checks.tokenizer import TokenizerCheck
from autoadapter.verify.checks.user_prompts import UserPromptsCheck
from autoadapter.verify.context import Check

CHECKS: tuple[Check, ...] = (
    CodeCheck(),
    ParityCheck(),
    QualityCheck(),
    TokenizerCheck(),
    MemoryCheck(),
    LoadCheck(),
    BenchCheck(),
    UserPromptsCheck(),
)
