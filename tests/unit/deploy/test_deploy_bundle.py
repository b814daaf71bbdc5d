"""The bundle: complete, reproducible, sealed, consistent with its plan, and honest."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from autoadapter.artifacts import AdapterBundle, Deployment, Level, RenderedFile, Status, Target
from autoadapter.deploy import DeployRequest, Site, deploy
from autoadapter.errors import BrokenCheckpointError, UserError, VerificationFailedError, WorkspaceError
from tests.unit.deploy.deploy_builders import (
    CPU,
    H200X8,
    HOSTILE_NAME,
    make_adapter,
    make_plan,
    make_report,
    make_request,
    make_weights,
)

PINNED = "registry.example/vllm@sha256:" + "a" * 64


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def claim(deployment: Deployment, words: str) -> Status:
    (row,) = [row for row in deployment.evidence if words in row.claim]
    return row.status


def cheap(request: DeployRequest, **fields: object) -> DeployRequest:
    """The same request for the target with the fastest validators."""
    return DeployRequest(**{**vars(request), "targets": (Target.LOCAL,), **fields})


def codes(deployment: Deployment) -> dict[str, Level]:
    return {finding.code: finding.level for finding in deployment.findings}


def test_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    deploy(request)
    first = tree(request.folder)
    deploy(request)
    assert tree(request.folder) == first
    elsewhere = DeployRequest(**{**vars(request), "folder": tmp_path / "other" / "bundle"})
    deploy(elsewhere)
    assert tree(elsewhere.folder) == first


def test_checksums_hold_and_notice_a_change(tmp_path: Path) -> None:
    request = make_request(tmp_path, make_plan(HOSTILE_NAME, served_name=HOSTILE_NAME))
    deploy(request)
    check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=request.folder, check=False).returncode == 0
    listed = {line.split("  ", 1)[1] for line in (request.folder / "SHA256SUMS").read_text().splitlines()}
    assert listed == set(tree(request.folder)) - {"SHA256SUMS"}
    weights = subprocess.run(
        ["sha256sum", "--check", "--strict", str(request.folder / "weights.sha256")],
        cwd=tmp_path / "weights",
        capture_output=True,
        check=False,
    )
    assert weights.returncode == 0
    (request.folder / "smoke.py").write_text("print('fine')\n")
    assert subprocess.run(check, cwd=request.folder, capture_output=True, check=False).returncode == 1


def test_manifest_lists_every_file_with_its_hash(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    deployment = deploy(request)
    assert {file.path for file in deployment.files} == set(tree(request.folder)) - {"bundle.json", "SHA256SUMS"}
    assert Deployment.read(request.folder / "bundle.json") == deployment
    assert (request.folder / "kubernetes/config.yaml").read_bytes() == (
        request.adapter / "vllm/config.yaml"
    ).read_bytes()
    assert (request.folder / "vllm/env").read_bytes() == (request.adapter / "vllm/env").read_bytes()
    assert (request.folder / "tokenizer/tokenizer_config.json").exists()


@pytest.mark.parametrize(
    ("target", "present", "absent"),
    [
        (Target.LOCAL, {"local/serve.sh"}, {"compose", "kubernetes", "container"}),
        (Target.COMPOSE, {"compose/compose.yaml", "container/Dockerfile"}, {"local", "kubernetes"}),
        (Target.KUBERNETES, {"kubernetes/deployment.yaml", "container/Dockerfile"}, {"local", "compose"}),
    ],
)
def test_one_target_writes_only_what_it_needs(
    tmp_path: Path, target: Target, present: set[str], absent: set[str]
) -> None:
    request = make_request(tmp_path, targets=(target,))
    deployment = deploy(request)
    names = set(tree(request.folder))
    assert present | {"smoke.py", "RUNBOOK.md", "bundle.json", "vllm/config.yaml", "rollback.json"} <= names
    assert not {name for name in names if name.split("/")[0] in absent}
    assert {key.split(".")[0] for key in deployment.commands} == {target.value}
    runbook = (request.folder / "RUNBOOK.md").read_text()
    assert f"## {target}" in runbook and not [other for other in Target if other != target and f"## {other}" in runbook]


def test_passed_report_is_carried_along_and_counts(tmp_path: Path) -> None:
    request = make_request(tmp_path, site=Site(image=PINNED))
    (tmp_path / "report.html").write_text("<html></html>\n")
    request = DeployRequest(**{**vars(request), "report_html": tmp_path / "report.html"})
    deployment = deploy(request)
    assert deployment.report_digest == request.report.digest()  # type: ignore[union-attr]
    assert (request.folder / "reports/report.json").read_text() == request.report.to_json()  # type: ignore[union-attr]
    assert (request.folder / "reports/report.html").exists()
    assert claim(deployment, "same model") is Status.PASSED
    assert claim(deployment, "vLLM starts") is Status.PASSED
    assert claim(deployment, "image") is Status.PASSED
    assert claim(deployment, "fits cpu") is Status.PASSED
    assert claim(deployment, "smoke.py") is Status.NOT_RUN
    assert claim(deployment, "cluster") is Status.NOT_RUN
    assert not deployment.findings


def test_what_was_not_proven_is_not_claimed(tmp_path: Path) -> None:
    deployment = deploy(make_request(tmp_path, report=False))
    assert deployment.report_digest is None
    assert claim(deployment, "same model") is Status.NOT_RUN
    assert claim(deployment, "vLLM starts") is Status.NOT_RUN
    assert claim(deployment, "fits") is Status.NOT_RUN
    assert claim(deployment, "image") is Status.NOT_RUN
    assert codes(deployment) == {"deploy.unproven": Level.WARNING, "deploy.image-not-pinned": Level.WARNING}


def test_a_start_on_other_hardware_does_not_prove_that_it_fits(tmp_path: Path) -> None:
    plan = make_plan(hardware=H200X8, tensor_parallel_size=8)
    request = make_request(tmp_path, plan)
    assert claim(deploy(cheap(request)), "fits h200:8") is Status.NOT_RUN
    report = make_report(plan, request.optimized, gpus=("NVIDIA H200",) * 8)
    on_gpus = cheap(request, **{"report": report})
    assert claim(deploy(on_gpus), "fits h200:8") is Status.PASSED
    report = make_report(plan, request.optimized, gpus=("NVIDIA H200",) * 4)
    assert claim(deploy(cheap(request, **{"report": report})), "fits h200:8") is Status.NOT_RUN


def test_failed_report_stops_unless_allowed(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    failed = make_report(request.plan, request.optimized, Status.FAILED)
    with pytest.raises(VerificationFailedError, match="parity") as caught:
        deploy(cheap(request, **{"report": failed}))
    assert caught.value.exit_code == 3 and caught.value.hint == "autoadapter test"
    assert not request.folder.exists()
    deployment = deploy(cheap(request, **{"report": failed, "require_passed": False}))
    assert claim(deployment, "same model") is Status.FAILED
    assert codes(deployment)["deploy.unproven"] is Level.BLOCKER


def test_missing_or_foreign_report_stops(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    with pytest.raises(VerificationFailedError, match="not tested"):
        deploy(cheap(request, **{"report": None}))
    other = make_report(make_plan("acme/Other"), request.optimized)
    with pytest.raises(VerificationFailedError, match="another plan"):
        deploy(cheap(request, **{"report": other}))
    deployment = deploy(cheap(request, **{"report": other, "require_passed": False}))
    assert claim(deployment, "same model") is Status.NOT_RUN
    assert not (request.folder / "reports").exists()


def test_inputs_of_another_plan_are_refused(tmp_path: Path) -> None:
    request, other = make_request(tmp_path), make_plan("acme/Other")
    with pytest.raises(WorkspaceError, match="checkpoint"):
        deploy(cheap(request, **{"optimized": make_weights(tmp_path / "w2", other)}))
    with pytest.raises(WorkspaceError, match="adapter"):
        deploy(cheap(request, **{"adapter": make_adapter(tmp_path / "a2", other)}))
    assert not request.folder.exists()


def test_an_adapter_edited_by_hand_is_refused(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    config = request.adapter / "vllm/config.yaml"
    digest = hashlib.sha256(config.read_bytes()).hexdigest()
    row = RenderedFile(path="vllm/config.yaml", template="adapter/vllm/config.yaml.j2", sha256=digest)
    manifest = AdapterBundle(tool_version="0.1.0", plan_digest=request.plan.digest(), files=(row,), findings=())
    (request.adapter / "adapter.json").write_text(manifest.to_json())
    deploy(cheap(request))
    config.write_text(config.read_text() + "max-num-seqs: 999\n")
    with pytest.raises(WorkspaceError, match="changed by hand"):
        deploy(cheap(request))


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_weights_that_are_not_in_place_stop(tmp_path: Path, damage: str) -> None:
    request = make_request(tmp_path)
    file = tmp_path / "weights/model.safetensors"
    file.unlink() if damage == "missing" else file.write_bytes(b"\x00" * 10)
    with pytest.raises(BrokenCheckpointError, match=r"model\.safetensors"):
        deploy(request)
    assert not request.folder.exists()


def test_config_that_lost_a_setting_is_a_blocker(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    config = request.adapter / "vllm/config.yaml"
    config.write_text("\n".join(row for row in config.read_text().splitlines() if "max-model-len" not in row) + "\n")
    deployment = deploy(cheap(request))
    assert codes(deployment)["deploy.invalid-file"] is Level.BLOCKER
    assert claim(deployment, "valid") is Status.FAILED
    (finding,) = [finding for finding in deployment.findings if finding.code == "deploy.invalid-file"]
    assert "max-model-len" in finding.message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("served-model-name: [somebody-else]\ndtype: bfloat16\nmax-model-len: 2048\n", "somebody-else"),
        ("- a list\n", "mapping"),
        ("a: [unclosed\n", "not YAML"),
    ],
)
def test_broken_config_is_a_blocker(tmp_path: Path, text: str, reason: str) -> None:
    request = make_request(tmp_path)
    (request.adapter / "vllm/config.yaml").write_text(text)
    findings = [finding for finding in deploy(cheap(request)).findings if finding.level is Level.BLOCKER]
    assert any(reason in finding.message for finding in findings)


def test_env_that_differs_from_the_plan_is_a_blocker(tmp_path: Path) -> None:
    request = make_request(tmp_path, make_plan(env={"VLLM_CPU_KVCACHE_SPACE": "4"}))
    (request.adapter / "vllm/env").write_text("VLLM_CPU_KVCACHE_SPACE=40\n")
    assert any("VLLM_CPU_KVCACHE_SPACE" in finding.message for finding in deploy(cheap(request)).findings)


def test_host_paths_and_closed_files_are_told(tmp_path: Path) -> None:
    request = make_request(tmp_path, make_plan(chat_template=str(Path(__file__)), disable_access_log="/health,/ping"))
    (tmp_path / "weights/model.safetensors").chmod(0o600)
    found = codes(deploy(request))
    assert found["deploy.host-path"] is Level.BLOCKER
    assert [row.source for row in deploy(request).findings if row.code == "deploy.host-path"] == [
        "plan.json:settings.chat-template"
    ]
    assert found["deploy.weights-not-readable"] is Level.WARNING
    local = codes(deploy(DeployRequest(**{**vars(request), "targets": (Target.LOCAL,)})))
    assert not set(local) & {"deploy.host-path", "deploy.weights-not-readable", "deploy.image-not-pinned"}


def test_a_folder_that_is_no_bundle_is_left_alone(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    request.folder.mkdir(parents=True)
    (request.folder / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="not a bundle"):
        deploy(request)
    assert (request.folder / "thesis.txt").read_text() == "years of work"


def test_a_file_where_the_bundle_should_be_stays(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    request.folder.parent.mkdir(parents=True)
    request.folder.write_text("notes")
    with pytest.raises(UserError, match="is a file"):
        deploy(request)
    assert request.folder.read_text() == "notes"


def test_interrupt_leaves_the_old_bundle(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    deploy(cheap(request))
    before = tree(request.folder)

    def interrupt(text: str, fraction: float | None = None) -> None:
        if text.startswith("validating"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deploy(cheap(request, **{"site": Site(port=9000)}), interrupt)
    assert tree(request.folder) == before
    assert [path.name for path in request.folder.parent.iterdir()] == ["bundle"]


def test_rollback_remembers_the_bundle_before(tmp_path: Path) -> None:
    first = make_request(tmp_path / "one")
    deploy(cheap(first))
    second = make_request(tmp_path / "two", make_plan("acme/Newer"), folder=first.folder)
    deploy(cheap(second))
    record = json.loads((first.folder / "rollback.json").read_text())
    assert record["previous"]["plan_digest"] == first.plan.digest()
    assert record["commands"]["local"]
    again = tree(second.folder)
    deploy(cheap(second))
    assert tree(second.folder) == again


@pytest.mark.parametrize(
    "fields",
    [
        {"image": "a b"},
        {"image": "x\nRUN evil"},
        {"image": "name@sha256:123"},
        {"port": 0},
        {"port": 70000},
        {"host": "example.org; rm"},
        {"namespace": "Bad_Name"},
        {"weights_pvc": "-x"},
        {"replicas": 0},
        {"gpu_product": "a b"},
    ],
)
def test_site_refuses_nonsense_in_one_sentence(fields: dict[str, object]) -> None:
    with pytest.raises(UserError) as caught:
        Site.model_validate(fields)
    assert caught.value.hint and "\n" not in str(caught.value)


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.32.0", PINNED, "localhost:5000/a/b", "x:1@sha256:" + "0" * 64])
def test_site_takes_real_images(tmp_path: Path, image: str) -> None:
    request = make_request(tmp_path, site=Site(image=image))
    deploy(request)
    compose = yaml.safe_load((request.folder / "compose/compose.yaml").read_text())
    assert compose["services"]["vllm"]["image"] == image
    assert f"\nFROM {image}\n" in (request.folder / "container/Dockerfile").read_text()


def test_smoke_script_alone_says_what_is_wrong(tmp_path: Path) -> None:
    request = make_request(tmp_path, make_plan(HOSTILE_NAME, CPU, served_name=HOSTILE_NAME))
    deploy(cheap(request))
    line = [sys.executable, "-I", str(request.folder / "smoke.py"), "--json", "--base-url", "http://127.0.0.1:9"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    assert done.returncode == 3 and not answer["passed"] and answer["model"] == HOSTILE_NAME
    assert {row["status"] for row in answer["checks"]} == {"failed"}
