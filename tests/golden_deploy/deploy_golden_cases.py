"""The golden bundles: three plans by hand, and how their trees are written. Nothing here depends on the machine."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autoadapter.artifacts import ServingPlan
from autoadapter.deploy import DeployRequest, Site, deploy
from tests.unit.deploy.deploy_builders import H200X8, HOSTILE_NAME, make_plan, make_report, make_request

PINNED = "registry.example/vllm-openai@sha256:" + "a" * 64
WEIGHTS = "/srv/weights"
"""What a golden file says where the test's own temporary folder stood."""
SKIPPED = ("SHA256SUMS", "bundle.json", "reports/report.json")
"""Hashes of the temporary folder's name; other tests read them."""


@dataclass(frozen=True)
class BundleCase:
    """A plan and the place it is for."""

    name: str
    plan: Callable[[], ServingPlan]
    site: Site
    cold_start: float = 45.0


CASES = (
    BundleCase(
        "dense_on_cpu",
        lambda: make_plan(env={"VLLM_CPU_KVCACHE_SPACE": "4"}, enforce_eager=True, shutdown_timeout=30),
        Site(),
    ),
    BundleCase(
        "tensor_parallel_on_h200",
        lambda: make_plan("example/Large-70B-Instruct", H200X8, 8, gpu_memory_utilization=0.9),
        Site(
            image=PINNED,
            namespace="serving",
            replicas=2,
            weights_pvc="large-70b",
            gpu_product="NVIDIA-H200",
            runtime_class="nvidia",
            api_key_secret="vllm-key",
        ),
        cold_start=412.3,
    ),
    BundleCase(
        "hostile_names",
        lambda: make_plan(HOSTILE_NAME, served_name=HOSTILE_NAME, env={"X": """a $HOME $(POD) "q" 'q' \\ `id` # y"""}),
        Site(host="0.0.0.0", port=9000),
    ),
)


def bundle_tree(case: BundleCase, root: Path) -> dict[str, str]:
    """Path → text of the case's bundle, with the weights' folder under its golden name."""
    request = make_request(root, case.plan(), site=case.site)
    report = make_report(request.plan, request.optimized, cold_start=case.cold_start)
    deployment = deploy(DeployRequest(**{**vars(request), "report": report}))
    files = {path for path in request.folder.rglob("*") if path.is_file()}
    named = {path.relative_to(request.folder).as_posix(): path.read_text() for path in files}
    texts = {name: text for name, text in named.items() if name not in SKIPPED}
    findings = [finding.model_dump(mode="json") for finding in deployment.findings]
    manifest = {"commands": deployment.commands, "undo": deployment.undo, "findings": findings}
    texts["manifest.json"] = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    return {name: text.replace(str(root / "weights"), WEIGHTS) for name, text in sorted(texts.items())}
