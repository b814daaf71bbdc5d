"""This machine: a process group that `autoadapter deploy --up` owns, or a script for machines without AutoAdapter."""

from pathlib import Path

from autoadapter.artifacts import Evidence, Finding, Status, Target, Validation
from autoadapter.deploy import validators
from autoadapter.deploy.facts import Facts
from autoadapter.deploy.views import ServeScriptView
from autoadapter.engine.process import LAUNCHER
from autoadapter.rendering import render

SCRIPT = "local/serve.sh"
STARTER = "local/vllm_launcher.py"


class LocalTarget:
    """One process group on one machine."""

    target = Target.LOCAL

    def files(self, facts: Facts) -> dict[str, str]:
        """The script, and the starter that works with every build of vLLM."""
        return {SCRIPT: render(ServeScriptView(facts)), STARTER: LAUNCHER.read_text(encoding="utf-8")}

    def commands(self, facts: Facts) -> dict[str, str]:
        """AutoAdapter's own verbs, and the script beside them."""
        return {
            "up": "autoadapter deploy --up",
            "serve": f"bash {SCRIPT}",
            "down": "autoadapter deploy --down",
            "status": "autoadapter deploy --status",
            "smoke": f"python3 smoke.py --base-url {facts.client_url}",
        }

    def rollback(self, facts: Facts) -> tuple[str, ...]:  # noqa: ARG002
        """Stop this one, start the previous plan's bundle."""
        return ("autoadapter deploy --down", "bash ../../PREVIOUS_PLAN/bundle/local/serve.sh")

    def undo(self, facts: Facts) -> tuple[str, ...]:  # noqa: ARG002
        """Stopping the server leaves nothing behind but its log."""
        return ("autoadapter deploy --down",)

    def evidence(self, facts: Facts) -> Evidence:  # noqa: ARG002
        """Started where `test` ran, or not at all."""
        claim, command = "the local server starts and answers", "autoadapter deploy --up"
        reason = "`--up` starts it and runs smoke.py; the answers are in smoke.json beside the bundle"
        return Evidence(claim=claim, status=Status.NOT_RUN, reason=reason, command=command)

    def findings(self, facts: Facts) -> tuple[Finding, ...]:  # noqa: ARG002
        """Nothing that the script cannot do alone."""
        return ()

    def validate(self, bundle: Path) -> tuple[Validation, ...]:
        """Syntax by bash, habits by shellcheck."""
        return (*validators.BASH.check(bundle, SCRIPT), *validators.SHELLCHECK.check(bundle, SCRIPT))
