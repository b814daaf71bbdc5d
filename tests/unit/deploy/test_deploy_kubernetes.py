"""The Kubernetes objects: the numbers that keep a rollout from losing requests, and the validators that read them."""

import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoadapter.artifacts import Hardware, Status
from autoadapter.deploy import DeployRequest, Site, deploy, validators
from autoadapter.deploy.names import checksum_line, object_name, parse_checksum_line
from autoadapter.deploy.stage import gather_facts
from autoadapter.deploy.targets.kubernetes import KubernetesTarget
from autoadapter.deploy.tools import Tool
from tests.unit.deploy.deploy_builders import CPU, H200X8, HOSTILE_NAME, make_plan, make_report, make_request


def written(root: Path) -> tuple[DeployRequest, dict[str, Any]]:
    """A whole bundle, validators and all."""
    request = make_request(root)
    deploy(request)
    return request, yaml.safe_load((request.folder / "kubernetes/deployment.yaml").read_text())


def document_of(request: DeployRequest, kind: str = "deployment") -> dict[str, Any]:
    """What the target writes, without running the validators."""
    text = KubernetesTarget().files(gather_facts(request))[f"kubernetes/{kind}.yaml"]
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def deployment(root: Path, hardware: Hardware = CPU, ranks: int = 1, **site: Any) -> dict[str, Any]:
    plan = make_plan(hardware=hardware, tensor_parallel_size=ranks)
    return document_of(make_request(root, plan, site=Site(**site)))


def pod_of(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    pod = document["spec"]["template"]["spec"]
    return pod, pod["containers"][0]


def test_the_pod_outlives_its_drain(tmp_path: Path) -> None:
    pod, container = pod_of(deployment(tmp_path))
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    drain = int(container["args"][container["args"].index("--shutdown-timeout") + 1])
    assert pause >= 15 and drain > 0
    assert pod["terminationGracePeriodSeconds"] > pause + drain


def test_a_planned_shutdown_timeout_is_kept(tmp_path: Path) -> None:
    request = make_request(tmp_path, make_plan(shutdown_timeout=90))
    pod, container = pod_of(document_of(request))
    assert "--shutdown-timeout" not in container["args"], "the configuration file says it"
    assert pod["terminationGracePeriodSeconds"] > 15 + 90


@pytest.mark.parametrize(("measured", "budget"), [(45.0, 600), (200.0, 600), (400.5, 1202)])
def test_startup_budget_follows_the_measured_start(tmp_path: Path, measured: float, budget: int) -> None:
    request = make_request(tmp_path)
    report = make_report(request.plan, request.optimized, cold_start=measured)
    document = document_of(DeployRequest(**{**vars(request), "report": report}))
    probe = pod_of(document)[1]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == math.ceil(budget / 10) * 10
    assert document["spec"]["progressDeadlineSeconds"] > budget


def test_readiness_is_quick_and_liveness_is_slow(tmp_path: Path) -> None:
    _, container = pod_of(deployment(tmp_path))
    ready, live = container["readinessProbe"], container["livenessProbe"]
    assert ready["periodSeconds"] * ready["failureThreshold"] * 3 < live["periodSeconds"] * live["failureThreshold"]
    assert min(probe["timeoutSeconds"] for probe in (ready, live)) >= 5
    assert {probe["httpGet"]["path"] for probe in (ready, live)} == {"/health"}


def test_gpus_are_counted_and_do_not_surge(tmp_path: Path) -> None:
    pod, container = pod_of(deployment(tmp_path / "gpu", H200X8, 8, gpu_product="NVIDIA-H200", runtime_class="nvidia"))
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert container["resources"]["requests"]["nvidia.com/gpu"] == "8"
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"} and pod["runtimeClassName"] == "nvidia"
    gpu = deployment(tmp_path / "gpu2", H200X8, 8)["spec"]["strategy"]["rollingUpdate"]
    cpu = deployment(tmp_path / "cpu")["spec"]["strategy"]["rollingUpdate"]
    assert gpu == {"maxSurge": 0, "maxUnavailable": 1} and cpu == {"maxSurge": 1, "maxUnavailable": 0}


def test_shared_memory_counts_within_the_limit(tmp_path: Path) -> None:
    pod, container = pod_of(deployment(tmp_path, H200X8, 8))
    (shm,) = [volume["emptyDir"] for volume in pod["volumes"] if volume["name"] == "shm"]
    gib = {name: int(text.removesuffix("Gi")) for name, text in
           {"shm": shm["sizeLimit"], "request": container["resources"]["requests"]["memory"],
            "limit": container["resources"]["limits"]["memory"]}.items()}  # fmt: skip
    assert shm["medium"] == "Memory"
    assert gib["shm"] < gib["request"] <= gib["limit"]


def test_cpu_memory_covers_the_plan(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    document = document_of(request)
    memory = request.plan.memory
    needed = (memory.weight_bytes + memory.overhead_bytes + memory.kv_pool_bytes) / 1024**3
    asked = int(pod_of(document)[1]["resources"]["requests"]["memory"].removesuffix("Gi"))
    assert asked > needed
    assert "nvidia.com/gpu" not in pod_of(document)[1]["resources"]["limits"]


def test_nothing_runs_as_root_and_home_is_writable(tmp_path: Path) -> None:
    pod, container = pod_of(deployment(tmp_path))
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    env = {row["name"]: row.get("value") for row in container["env"]}
    writable = [row["mountPath"] for row in container["volumeMounts"] if not row.get("readOnly")]
    for name in ("HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        assert any(str(env[name]).startswith(path) for path in writable)
    assert env["HF_HUB_OFFLINE"] == env["TRANSFORMERS_OFFLINE"] == "1"


def test_secrets_are_named_never_held(tmp_path: Path) -> None:
    document = deployment(tmp_path, api_key_secret="vllm-key")
    (row,) = [row for row in pod_of(document)[1]["env"] if row["name"] == "VLLM_API_KEY"]
    assert row == {"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": {"name": "vllm-key", "key": "api-key"}}}


def test_selectors_meet_the_pods(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    document = document_of(request)
    labels = document["spec"]["template"]["metadata"]["labels"]
    service, budget = document_of(request, "service"), document_of(request, "pod-disruption-budget")
    policy = document_of(request, "network-policy")
    assert service["spec"]["selector"] == document["spec"]["selector"]["matchLabels"] == labels
    assert budget["spec"]["selector"]["matchLabels"] == policy["spec"]["podSelector"]["matchLabels"] == labels
    assert policy["spec"]["egress"] == []


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_mounts_the_tested_configuration(tmp_path: Path) -> None:
    request, _ = written(tmp_path)
    built = subprocess.run(
        ["kubectl", "kustomize", "kubernetes"], cwd=request.folder, capture_output=True, text=True, check=True
    )
    objects = {document["kind"]: document for document in yaml.safe_load_all(built.stdout)}
    config = objects["ConfigMap"]
    assert config["data"]["config.yaml"] == (request.adapter / "vllm/config.yaml").read_text()
    volumes = {row["name"]: row for row in objects["Deployment"]["spec"]["template"]["spec"]["volumes"]}
    assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]
    assert config["metadata"]["namespace"] == objects["Deployment"]["metadata"]["namespace"]


def test_hostile_values_stay_values(tmp_path: Path) -> None:
    value = """a $HOME ${HOME} $(POD_IP) "q" 'q' \\ `id` #x: y\nz"""
    folder = tmp_path / "we:ights $HOME 'x'"
    plan = make_plan(HOSTILE_NAME, served_name=HOSTILE_NAME, env={"X": value})
    request = make_request(tmp_path, plan, weights=folder)
    deployment = deploy(request)
    assert not [row for row in deployment.validations if row.status is Status.FAILED]
    document = yaml.safe_load((request.folder / "kubernetes/deployment.yaml").read_text())
    (row,) = [row for row in pod_of(document)[1]["env"] if row["name"] == "X"]
    assert row["value"] == value.replace("$(", "$$(")
    assert document["metadata"]["annotations"]["autoadapter/model"] == HOSTILE_NAME
    compose = yaml.safe_load((request.folder / "compose/compose.yaml").read_text())["services"]["vllm"]
    assert compose["environment"]["X"].replace("$$", "$") == value and "$$HOME" in compose["environment"]["X"]
    assert compose["volumes"][0]["source"].replace("$$", "$") == str(folder)


def test_serve_script_hands_vllm_exactly_its_words(tmp_path: Path) -> None:
    folder = tmp_path / "we ights $(touch pwned) 'x'"
    request = make_request(tmp_path, make_plan(env={"X": "a $HOME 'b'"}), weights=folder, site=Site(port=8123))
    deploy(request)
    python = tmp_path / "python"
    python.write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$X" "$HF_HUB_OFFLINE" "$PWD" "$@"\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["bash", str(request.folder / "local/serve.sh")],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(python), "PORT": "8124"},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        *(
            "a $HOME 'b'",
            "1",
            str(request.folder),
            "local/vllm_launcher.py",
            "serve",
            str(folder),
            "--config",
            "vllm/config.yaml",
        ),
        *("--host", "127.0.0.1", "--port", "8124", "--shutdown-timeout", "45"),
    ]


def test_a_broken_manifest_does_not_pass(tmp_path: Path) -> None:
    request, document = written(tmp_path)
    file = request.folder / "kubernetes/deployment.yaml"
    document["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    file.write_text(yaml.safe_dump(document))
    (verdict,) = validators.KUBERNETES_SCHEMA.check(request.folder, "kubernetes/deployment.yaml")
    assert verdict.status is Status.FAILED and "livenesProbe" in verdict.reason
    (request.folder / "kubernetes/kustomization.yaml").write_text("resources: [gone.yaml]\n")
    assert validators.KUSTOMIZE.check(request.folder, "kubernetes")[0].status is not Status.PASSED


@pytest.mark.parametrize(
    ("tool", "file", "text"),
    [
        (validators.COMPOSE_SCHEMA, "compose/compose.yaml", "services: {vllm: {imagge: x}}\n"),
        (validators.YAMLLINT, "compose/compose.yaml", "a: 1\na: 2\n"),
        (validators.HADOLINT, "container/Dockerfile", "FROM x:1\nRUNN true\n"),
        (validators.BASH, "local/serve.sh", "if true; then\n"),
    ],
)
def test_each_validator_can_fail(tmp_path: Path, tool: Any, file: str, text: str) -> None:
    request, _ = written(tmp_path)
    assert tool.check(request.folder, file)[0].status is Status.PASSED
    (request.folder / file).write_text(text)
    (verdict,) = tool.check(request.folder, file)
    assert verdict.status is Status.FAILED and verdict.reason


def test_only_the_bad_file_of_many_is_blamed(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("a: 1\n")
    (tmp_path / "bad.yaml").write_text("a: 1\na: 2\n")
    verdicts = {row.file: row.status for row in validators.YAMLLINT.check(tmp_path, "good.yaml", "bad.yaml")}
    assert verdicts == {"good.yaml": Status.PASSED, "bad.yaml": Status.FAILED}


def test_a_missing_validator_is_not_a_pass(tmp_path: Path) -> None:
    absent = Tool("nowhere", ("no-such-program",), "pip install nowhere")
    (verdict,) = absent.check(tmp_path, "x.yaml")
    assert verdict.status is Status.NOT_RUN and "pip install nowhere" in verdict.reason
    incomplete = Tool("half", ("bash", "-n"), "the other half", probe=("false",))
    assert incomplete.check(tmp_path, "x.yaml")[0].status is Status.NOT_RUN


def test_names_are_labels_and_differ_where_models_differ() -> None:
    names = ["acme/Tiny-1B", "模型", "型模", "01-ai/Yi", "a" * 200, "a" * 201, HOSTILE_NAME, "a/b", "a//b", "A.b_c"]
    made = [object_name(name) for name in names]
    assert len(set(made)) == len(names)
    for name in made:
        assert len(name) <= 52 and name[0].isalpha() and name[-1].isalnum()
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert object_name("acme/Tiny-1B") == "llm-acme-tiny-1b"


@pytest.mark.parametrize("path", ["plain.bin", "with space", "back\\slash", "new\nline", "car\rriage", "模型.bin"])
def test_checksum_lines_are_what_sha256sum_reads(tmp_path: Path, path: str) -> None:
    (tmp_path / path).write_bytes(b"x")
    line = checksum_line("2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", path)
    assert parse_checksum_line(line.removesuffix("\n"))[1] == path
    done = subprocess.run(["sha256sum", "--check", "--strict"], input=line.encode(), cwd=tmp_path, check=False)
    assert done.returncode == 0
