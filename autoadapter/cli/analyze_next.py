"""Commands to type after `analyze`, with what the user said kept. A plan that would fail is never named."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autoadapter.artifacts import ModelProfile
from autoadapter.cli.analyze_view import Analysis
from autoadapter.cli.common import relative
from autoadapter.errors import AutoadapterError
from autoadapter.hardware import parse_hardware
from autoadapter.options import Options, workload_for
from autoadapter.plan import PlanRequest, can_plan
from autoadapter.rendering.fit import Fit

STRATEGIES = ("balanced", "min_mem")


def generate_command(analysis: Analysis, settings: dict[str, Any], root: Path) -> str | None:
    """The next stage on the hardware asked for, else on the smallest; None where no plan can be made."""
    for changes in _wishes(analysis, settings):
        wanted = {**settings, **changes}
        if _plans(analysis.profile, wanted):
            words = ["autoadapter", "generate", "--strategy", wanted["strategy"], *_kept(wanted)]
            share = (wanted["engine_args"] or {}).get("gpu-memory-utilization")
            words += ["--engine-arg", f"gpu-memory-utilization={share:g}"] if share else []
            return shlex.join([*words, "-w", relative(root)])
    return None


def _wishes(analysis: Analysis, settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    fit, smallest = analysis.fit, analysis.sizings[0].smallest if analysis.sizings else None
    machines = [settings["hardware"], *([smallest] if smallest and settings["common_hardware"] else [])]
    length = fit.longest if fit is not None and fit.outcome == "shorter" else settings["max_model_len"]
    for machine in machines:
        for strategy in STRATEGIES:
            yield {"hardware": machine, "strategy": strategy, "max_model_len": length}


def _plans(profile: ModelProfile, settings: dict[str, Any]) -> bool:
    """Whether `generate` would make a plan of this: it takes milliseconds to see."""
    given = {name: settings[name] for name in ("strategy", "hardware", "max_model_len", "recipes", "engine_args")}
    options = Options.model_validate({name: value for name, value in given.items() if value is not None})
    try:
        request = PlanRequest(
            strategy=options.strategy,
            hardware=parse_hardware(options.hardware),
            workload=workload_for(options.max_model_len or profile.max_model_len, {}),
            vllm_version=profile.verdict.vllm_version,
            max_model_len=options.max_model_len,
            recipe=options.recipe_of(profile.ref),
            engine_args=options.engine_args,
        )
    except AutoadapterError:
        return False
    return can_plan(profile, request)


def again(model: str, fit: Fit, settings: dict[str, Any]) -> str | None:
    """The `analyze` that finds room: with fewer tokens where some fit, else on the smallest hardware."""
    if fit.outcome == "too_small" and fit.longest:
        return _analyze(model, settings, {"max_model_len": fit.longest})
    if fit.smallest:
        return _analyze(model, settings, {"hardware": fit.smallest})
    return None


def _analyze(model: str, settings: dict[str, Any], changes: dict[str, Any]) -> str:
    wanted = {**settings, **changes}
    words = ["autoadapter", "analyze", model, *_kept(wanted)]
    share = (wanted["engine_args"] or {}).get("gpu-memory-utilization")
    words += ["--gpu-memory-utilization", f"{share:g}"] if share else []
    for name in ("revision", "vllm_version", "engine_python"):
        words += [f"--{name.replace('_', '-')}", str(wanted[name])] if wanted.get(name) else []
    for name in ("trust_remote_code", "follow_symlinks"):
        words += [f"--{name.replace('_', '-')}"] if wanted.get(name) else []
    place = wanted.get("workspace")
    return shlex.join([*words, *(["-w", str(place)] if place else [])])


def _kept(settings: dict[str, Any]) -> Iterator[str]:
    """Options that both commands have."""
    if settings["hardware"] != "cpu" or not settings["common_hardware"]:
        yield from ("--hardware", settings["hardware"])
    if settings["max_model_len"]:
        yield from ("--max-model-len", str(settings["max_model_len"]))
    if settings["recipes"]:
        yield from ("--recipes", str(settings["recipes"]))
