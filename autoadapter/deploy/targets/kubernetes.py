"""A cluster: a kustomize base of plain objects."""

from pathlib import Path

from autoadapter.artifacts import Evidence, Finding, Level, Status, Target, Validation
from autoadapter.deploy import containers, manifests, validators
from autoadapter.deploy.facts import CONTAINER_PORT, Facts
from autoadapter.rendering import to_yaml

FOLDER = "kubernetes"
OBJECTS = {
    "service-account.yaml": manifests.service_account,
    "deployment.yaml": manifests.deployment,
    "service.yaml": manifests.service,
    "pod-disruption-budget.yaml": manifests.disruption_budget,
    "network-policy.yaml": manifests.network_policy,
}
KUSTOMIZATION = f"{FOLDER}/kustomization.yaml"
CONFIG = f"{FOLDER}/config.yaml"
"""A copy of `vllm/config.yaml`: kustomize reads no file outside its own folder."""


class KubernetesTarget:
    """Deployment, Service and what keeps them safe."""

    target = Target.KUBERNETES

    def files(self, facts: Facts) -> dict[str, str]:
        """One file an object, the kustomization, and the Dockerfile."""
        objects = {f"{FOLDER}/{name}": to_yaml(make(facts)) for name, make in OBJECTS.items()}
        kustomization = to_yaml(manifests.kustomization(facts, list(OBJECTS)))
        return {**objects, KUSTOMIZATION: kustomization, **containers.dockerfile(facts)}

    def commands(self, facts: Facts) -> dict[str, str]:
        """The words of kubectl. `smoke` needs `forward` in another terminal."""
        kubectl = f"kubectl -n {facts.site.namespace}"
        wait = f"{kubectl} rollout status deployment/{facts.name} --timeout={facts.startup_budget}s"
        return {
            "up": f"kubectl apply -k {FOLDER} && {wait}",
            "down": f"{kubectl} scale deployment/{facts.name} --replicas=0",
            "status": f"{kubectl} get deployment,pod -l app.kubernetes.io/instance={facts.name}",
            "forward": f"{kubectl} port-forward service/{facts.name} {facts.site.port}:{CONTAINER_PORT}",
            "smoke": f"python3 smoke.py --base-url http://127.0.0.1:{facts.site.port}",
        }

    def rollback(self, facts: Facts) -> tuple[str, ...]:
        """The old ConfigMap is still there: its name carries the hash of its content."""
        kubectl = f"kubectl -n {facts.site.namespace}"
        wait = f"{kubectl} rollout status deployment/{facts.name} --timeout={facts.startup_budget}s"
        return (f"{kubectl} rollout undo deployment/{facts.name}", wait)

    def undo(self, facts: Facts) -> tuple[str, ...]:  # noqa: ARG002
        """Everything that `apply -k` made; the claim with the weights stays."""
        return (f"kubectl delete -k {FOLDER}",)

    def evidence(self, facts: Facts) -> Evidence:
        """No cluster was reached."""
        claim, command = "the pods become ready on a cluster", self.commands(facts)["up"]
        return Evidence(
            claim=claim,
            status=Status.NOT_RUN,
            reason="no cluster is reached while a bundle is written",
            command=command,
        )

    def findings(self, facts: Facts) -> tuple[Finding, ...]:
        """What containers cannot see, and what a rollout costs without spare devices."""
        return (*containers.container_findings(facts), *_plugin_image(facts), *_rollout_gap(facts))

    def validate(self, bundle: Path) -> tuple[Validation, ...]:
        """Every object against the schema of its kind, every file by yamllint, and the whole by kustomize."""
        objects = [f"{FOLDER}/{name}" for name in OBJECTS]
        return (
            *validators.KUBERNETES_SCHEMA.check(bundle, *objects),
            *validators.YAMLLINT.check(bundle, *objects, KUSTOMIZATION),
            *validators.KUSTOMIZE.check(bundle, FOLDER),
            *validators.HADOLINT.check(bundle, containers.DOCKERFILE),
        )


def _plugin_image(facts: Facts) -> tuple[Finding, ...]:
    if not facts.has_plugin or facts.site.image:
        return ()
    return (
        Finding(
            code="deploy.plugin-image",
            level=Level.BLOCKER,
            message=f"The pods need an image with this bundle's vLLM plugin, and {facts.image} has none.",
            hint=f"Build {containers.DOCKERFILE}, push the image, then: autoadapter deploy --image NAME@sha256:DIGEST",
            source="kubernetes/deployment.yaml:image",
        ),
    )


def _rollout_gap(facts: Facts) -> tuple[Finding, ...]:
    if not facts.gpus or facts.site.replicas > 1:
        return ()
    return (
        Finding(
            code="deploy.rollout-gap",
            level=Level.INFO,
            message="With one replica on GPUs every rollout has a gap as long as a start: the old pod goes first.",
            hint="Two replicas close it, or a second bundle under another name behind a gateway.",
            source="kubernetes/deployment.yaml:strategy",
        ),
    )
