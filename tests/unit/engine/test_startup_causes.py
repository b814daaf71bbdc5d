"""The last cause, read from excerpts of real vLLM 0.32 logs."""

from pathlib import Path

import pytest

from autoadapter.engine.startup_log import last_cause, read_startup_log

LOGS = Path(__file__).with_name("startup_logs")

CAUSES = {
    "unknown_key": "unrecognized arguments: --max-model-length 2048",
    "bad_value": "argument --max-model-len: invalid human_readable_int_or_auto value: 'eight'",
    "broken_yaml": 'while parsing a flow sequence: in "broken_yaml.yaml", line 3, column 15',
    "missing_folder": "Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/nosuch'",
    "max_model_len_too_large": "User-specified max_model_len (100000) is greater than the derived max_model_len",
    "unknown_model_type": "model type `nosuch` but Transformers does not recognize this architecture",
    "config_code_raises": "The model xlnet is one of the few models that has no sequence length limit.",
    "truncated_weights": "SafetensorError: Error while deserializing header: incomplete metadata",
    "kv_cache_too_big": "Available memory on node 0 (9.34/11.21 GiB) on kv cache allocation is less than requested",
    "kv_pool_too_small": "KV cache is needed, which is larger than the available KV cache memory",
}


@pytest.mark.parametrize(("log", "cause"), CAUSES.items())
def test_the_root_cause_is_told_not_its_wrapping(log: str, cause: str) -> None:
    told = last_cause(LOGS / f"{log}.txt")
    assert told is not None
    assert cause in told
    assert "Engine core initialization failed" not in told
    assert "validation error" not in told
    assert "please check the stack trace" not in told
    assert "\n" not in told


def test_every_log_is_expected() -> None:
    assert {path.stem for path in LOGS.glob("*.txt")} == {*CAUSES, "started"}


def test_a_start_is_read() -> None:
    startup = read_startup_log(LOGS / "started.txt")
    assert startup.phase == "answering"
    assert startup.kv_cache_tokens == 46592
    assert startup.max_concurrency == 5.69


@pytest.mark.parametrize(
    ("lines", "phase"), [(1, "reading the configuration"), (3, "loading weights"), (5, "warming up")]
)
def test_the_phase_follows_the_log(tmp_path: Path, lines: int, phase: str) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join((LOGS / "started.txt").read_text().splitlines()[:lines]))
    assert read_startup_log(log).phase == phase


def test_a_log_that_does_not_exist_yet(tmp_path: Path) -> None:
    assert read_startup_log(tmp_path / "absent").phase == "importing"
    assert last_cause(tmp_path / "absent") is None


def test_a_field_error_names_its_field(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for CacheConfig\n"
        "block_size\n  Input should be greater than 0 [type=greater_than, input_value=0, input_type=int]\n"
    )
    assert last_cause(log) == "CacheConfig: block_size: Input should be greater than 0"
