"""Blocks, groups and concurrency against the installed vLLM's own functions, exactly."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoadapter.engine import find_engine, run_worker
from autoadapter.engine.process import LAUNCHER
from autoadapter.plan.kv import KvLayout, KvRefusedError, kv_layout
from tests.engine.kv_cases import Case, model_cases, random_cases, request, structure

pytestmark = pytest.mark.engine

WORKER = Path(__file__).parent / "workers" / "kv_oracle.py"
RANDOM_CASES, SEED = 600, 20_260_101
MIXED_WITH_MLA = "a state beside both MLA and other attention: no such model, vLLM's own page sizes contradict"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Case, dict[str, Any]]]:
    """What vLLM says of every case, asked once."""
    cases = [*model_cases(), *random_cases(RANDOM_CASES, SEED)]
    asked = {"launcher": str(LAUNCHER.parent), "cases": [request(case) for case in cases]}
    log = tmp_path_factory.mktemp("oracle") / "oracle.log"
    found = run_worker(Path(find_engine().python), WORKER, asked, log=log).result["answers"]
    return {case.name: (case, answer) for case, answer in zip(cases, found, strict=True)}


def differences(case: Case, answer: dict[str, Any]) -> Iterator[str]:
    """Everything in which AutoAdapter and vLLM do not agree."""
    try:
        layout = kv_layout(structure(case), case.question)
    except KvRefusedError as refused:
        if "error" not in answer:
            yield f"only AutoAdapter refuses: {refused}"
        return
    if "error" in answer:
        yield f"only vLLM refuses: {answer['error']}"
        return
    yield from _unequal(layout, case, answer)


def _unequal(layout: KvLayout, case: Case, answer: dict[str, Any]) -> Iterator[str]:
    mine = layout.capacity(case.pools)
    tokens = case.question.max_model_len
    pairs = {
        "groups": (_groups(layout), sorted([_layers(names), block] for names, block in answer["groups"])),
        "bytes of a block": (list(layout.stage_bytes), answer["stage_bytes"]),
        "block size": (mine.block_size, answer["block_size"]),
        "blocks": (mine.blocks, answer["blocks"]),
        "tokens": (mine.tokens, answer["tokens"]),
        "concurrency": (mine.max_concurrency, answer["concurrency"]),
        "needed": ([layout.blocks_for(tokens) * size for size in layout.stage_bytes], answer["needed"]),
        "longest": (layout.longest(case.pools, case.limit), answer["longest"]),
        "starts": (mine.blocks if layout.longest(case.pools, tokens) == tokens else None, answer["starts"]),
    }
    yield from (f"{name}: {ours} instead of {theirs}" for name, (ours, theirs) in pairs.items() if ours != theirs)


def _groups(layout: KvLayout) -> list[list[Any]]:
    return sorted([sorted(member.layer for member in group.members), group.block_size] for group in layout.groups)


def _layers(names: list[str]) -> list[int]:
    return sorted(int(name.split(".")[0]) for name in names)


@pytest.mark.timeout(300)
def test_models_are_laid_out_as_vllm_lays_them_out(answers: dict[str, tuple[Case, dict[str, Any]]]) -> None:
    wrong = {
        name: found
        for name, (case, answer) in answers.items()
        if not name.startswith("random") and (found := list(differences(case, answer)))
    }
    assert not wrong


def test_random_layers_are_laid_out_as_vllm_lays_them_out(answers: dict[str, tuple[Case, dict[str, Any]]]) -> None:
    wrong = {
        name: found
        for name, (case, answer) in answers.items()
        if name.startswith("random") and (found := list(differences(case, answer)))
    }
    assert not wrong


def test_the_cases_reach_every_way_of_grouping(answers: dict[str, tuple[Case, dict[str, Any]]]) -> None:
    """A sweep in which vLLM refused nearly everything, or made one group of everything, would prove nothing."""
    found = [answer for _, answer in answers.values()]
    assert sum("error" not in answer for answer in found) > len(found) * 0.7
    assert {len(answer["groups"]) for answer in found if "error" not in answer} >= {1, 2, 3, 4, 5, 6, 7}
    assert sum(answer.get("starts") is None for answer in found) > 10
