"""Kubernetes objects of one model server, as plain documents; `rendering.to_yaml` writes them."""

import math
from typing import TypeAlias

from autoadapter.deploy.facts import (
    CONFIG_IN_CONTAINER,
    CONTAINER_PORT,
    CONTAINER_USER,
    HOME_IN_CONTAINER,
    PRE_STOP_SECONDS,
    PULL_SECONDS,
    Facts,
)
from autoadapter.deploy.resources import Resources, resources

Document: TypeAlias = dict[str, object]
PROBE_PERIOD_SECONDS = 10


def labels(facts: Facts) -> dict[str, str]:
    """What selects the pods of this model, and nothing that changes between versions of it."""
    return {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/instance": facts.name}


def metadata(facts: Facts) -> Document:
    """Name, namespace, labels; the model's own name only as an annotation, where any text is legal."""
    described = {"app.kubernetes.io/version": facts.plan.vllm_version, "app.kubernetes.io/managed-by": "autoadapter"}
    notes = {"autoadapter/model": facts.plan.model.name, "autoadapter/plan": facts.plan.digest()}
    return {
        "name": facts.name,
        "namespace": facts.site.namespace,
        "labels": {**labels(facts), **described},
        "annotations": notes,
    }


def deployment(facts: Facts) -> Document:
    """The server's Deployment.

    On GPUs a surge pod would wait for devices that the old pod holds, and the rollout would never end: so the old one
    goes first. A CPU server surges.
    """
    surge, missing = (0, 1) if facts.gpus else (1, 0)
    spec: Document = {
        "replicas": facts.site.replicas,
        "revisionHistoryLimit": 5,
        "progressDeadlineSeconds": facts.startup_budget + PULL_SECONDS,
        "selector": {"matchLabels": labels(facts)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}},
        "template": {"metadata": {"labels": labels(facts)}, "spec": _pod(facts)},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(facts), "spec": spec}


def _pod(facts: Facts) -> Document:
    identity = {"runAsUser": CONTAINER_USER, "runAsGroup": CONTAINER_USER, "fsGroup": CONTAINER_USER}
    pod: Document = {
        "serviceAccountName": facts.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # a Service named vllm would set VLLM_* variables
        "terminationGracePeriodSeconds": facts.grace_seconds,
        "securityContext": {"runAsNonRoot": True, **identity, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(facts)],
        "volumes": _volumes(facts, resources(facts)),
    }
    if facts.site.runtime_class:
        pod["runtimeClassName"] = facts.site.runtime_class
    if facts.site.gpu_product:
        pod["nodeSelector"] = {"nvidia.com/gpu.product": facts.site.gpu_product}
    if facts.gpus:
        pod["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return pod


def _container(facts: Facts) -> Document:
    return {
        "name": "vllm",
        "image": facts.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["vllm"],
        "args": facts.container_arguments,
        "env": _env(facts),
        "ports": [{"name": "http", "containerPort": CONTAINER_PORT}],
        "resources": _resources(facts, resources(facts)),
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sleep", str(PRE_STOP_SECONDS)]}}},
        "startupProbe": _probe(PROBE_PERIOD_SECONDS, math.ceil(facts.startup_budget / PROBE_PERIOD_SECONDS)),
        # Not ready fast, killed slowly: a server under load answers late, and a restart costs a whole start.
        "readinessProbe": _probe(5, 3),
        "livenessProbe": _probe(PROBE_PERIOD_SECONDS, 10, timeout=10),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": False,  # nvidia-cdi-hook writes to it (opendatahub-io/kserve#1655)
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "weights", "mountPath": facts.model_in_container, "readOnly": True},
            {"name": "config", "mountPath": CONFIG_IN_CONTAINER.rsplit("/", 1)[0], "readOnly": True},
            {"name": "home", "mountPath": HOME_IN_CONTAINER},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }


def _env(facts: Facts) -> list[Document]:
    variables: list[Document] = [
        {"name": name, "value": value.replace("$(", "$$(")}  # Kubernetes expands $(NAME)
        for name, value in facts.container_env.items()
    ]
    if facts.site.api_key_secret:
        reference = {"name": facts.site.api_key_secret, "key": "api-key"}
        variables.append({"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": reference}})
    return variables


def _resources(facts: Facts, needed: Resources) -> Document:
    gpus = {"nvidia.com/gpu": str(facts.gpus)} if facts.gpus else {}
    requests = {"cpu": str(needed.cpus), "memory": f"{needed.request_gib}Gi", **gpus}
    return {"requests": requests, "limits": {"memory": f"{needed.limit_gib}Gi", **gpus}}


def _volumes(facts: Facts, needed: Resources) -> list[Document]:
    return [
        {"name": "weights", "persistentVolumeClaim": {"claimName": facts.weights_pvc, "readOnly": True}},
        {"name": "config", "configMap": {"name": config_map_name(facts)}},
        {"name": "home", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{needed.shm_gib}Gi"}},
    ]


def _probe(period: int, failures: int, timeout: int = 5) -> Document:
    target = {"path": "/health", "port": "http"}
    return {"httpGet": target, "periodSeconds": period, "timeoutSeconds": timeout, "failureThreshold": failures}


def config_map_name(facts: Facts) -> str:
    """Name before kustomize adds the hash of the content; the hash makes a changed configuration a rollout."""
    return f"{facts.name}-config"


def service(facts: Facts) -> Document:
    """One stable address inside the cluster."""
    ports = [{"name": "http", "port": CONTAINER_PORT, "targetPort": "http"}]
    spec = {"type": "ClusterIP", "selector": labels(facts), "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(facts), "spec": spec}


def service_account(facts: Facts) -> Document:
    """An identity with no rights and no token."""
    head = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(facts)}
    return {**head, "automountServiceAccountToken": False}


def disruption_budget(facts: Facts) -> Document:
    """One pod at a time; `minAvailable: 1` would block every node drain of a single replica."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": labels(facts)}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(facts), "spec": spec}


def network_policy(facts: Facts) -> Document:
    """In: the HTTP port, from pods of the same namespace. Out: nothing, since weights and tokenizer are local."""
    source = {"from": [{"podSelector": {}}], "ports": [{"protocol": "TCP", "port": CONTAINER_PORT}]}
    spec = {
        "podSelector": {"matchLabels": labels(facts)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [source],
        "egress": [],
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(facts),
        "spec": spec,
    }


def kustomization(facts: Facts, resource_files: list[str]) -> Document:
    """Ties the objects together and makes the ConfigMap from the very file that was tested."""
    generator = {"name": config_map_name(facts), "namespace": facts.site.namespace, "files": ["config.yaml"]}
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resource_files,
        "configMapGenerator": [generator],
    }
