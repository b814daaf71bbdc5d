"""The numbers of a bundle, each with where it comes from. Pure: no file is read here."""

import math
from dataclasses import dataclass
from functools import cached_property

from autoadapter.artifacts import OptimizedModel, Route, ServingPlan, VerificationReport, WeightsRef
from autoadapter.deploy.names import object_name
from autoadapter.deploy.site import Site

GIB = 1024**3
CONTAINER_PORT = 8000
CONTAINER_USER = 2000
"""Any non-root id will do; the images need no passwd entry because HOME and USER are set."""
CONFIG_IN_CONTAINER = "/etc/vllm/config.yaml"
HOME_IN_CONTAINER = "/cache"
PLUGIN = "plugin"
"""Folder of the rendered vLLM plugin in a bundle: package and `.dist-info`, found through PYTHONPATH."""
PLUGIN_IN_CONTAINER = "/opt/autoadapter/plugin"

STARTUP_FLOOR_SECONDS = 600
STARTUP_FACTOR = 3
"""Startup budget = max(floor, 3 × slowest measured cold start): another node's disk may be that much slower."""
PRE_STOP_SECONDS = 15
"""Pod stays in service this long after its endpoint was withdrawn, before SIGTERM. KServe and llm-d use 15."""
SHUTDOWN_TIMEOUT_SECONDS = 45
"""vLLM's default is 0: requests in flight are cut off."""
DRAIN_MARGIN_SECONDS = 15
PULL_SECONDS = 1200
"""Image pull counts against progressDeadlineSeconds, not against the startup probe (production-stack uses 1200)."""

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
_WRITABLE = {
    "HOME": HOME_IN_CONTAINER,
    "USER": "vllm",  # torch asks getpass for a user name; without a passwd entry only $USER answers
    "VLLM_CACHE_ROOT": f"{HOME_IN_CONTAINER}/vllm",
    "TRITON_CACHE_DIR": f"{HOME_IN_CONTAINER}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{HOME_IN_CONTAINER}/torchinductor",
}

CPU_CORES = 4
"""Where the site names no cores."""


@dataclass(frozen=True)
class Facts:
    """What every target needs to know."""

    plan: ServingPlan
    optimized: OptimizedModel
    report: VerificationReport | None
    """None when there is none for this plan and checkpoint."""
    site: Site
    weights: WeightsRef
    can_chat: bool
    """Whether `/v1/chat/completions` is expected to answer."""

    @cached_property
    def name(self) -> str:
        """Name of the objects: a DNS label."""
        return object_name(self.plan.model.name)

    @property
    def has_plugin(self) -> bool:
        """Whether the model's code comes from the bundle."""
        return self.plan.route is Route.GENERATED

    @property
    def image(self) -> str:
        """Container image: the site's, or vLLM's official one by version tag."""
        repository = "vllm/vllm-openai" if self.plan.hardware.kind == "cuda" else "vllm/vllm-openai-cpu"
        return self.site.image or f"{repository}:v{self.plan.vllm_version}"

    @property
    def image_is_pinned(self) -> bool:
        """Whether the image cannot change under its name."""
        return "@sha256:" in self.image

    @property
    def model_in_container(self) -> str:
        """Where the containers see the weights."""
        return f"/models/{self.name}"

    @property
    def weights_pvc(self) -> str:
        """Name of the claim with the weights."""
        return self.site.weights_pvc or f"{self.name}-weights"

    @property
    def ranks(self) -> int:
        """Worker processes: one a device."""
        layout = self.plan.parallelism
        return layout.tensor_parallel_size * layout.pipeline_parallel_size * layout.data_parallel_size

    @property
    def gpus(self) -> int:
        """GPUs that a replica holds; 0 on a CPU."""
        return self.ranks if self.plan.hardware.kind == "cuda" else 0

    @property
    def local_env(self) -> dict[str, str]:
        """Variables of the server process on any machine; the plan's own win."""
        return {**OFFLINE, **{setting.name: setting.value for setting in self.plan.env}}

    @property
    def container_env(self) -> dict[str, str]:
        """Variables in a container, where only HOME is writable."""
        threads = {} if self.gpus else {"OMP_NUM_THREADS": str(self.cpu_cores)}
        plugin = {"PYTHONPATH": PLUGIN_IN_CONTAINER} if self.has_plugin else {}
        return {
            **OFFLINE,
            **_WRITABLE,
            **threads,
            **plugin,
            **{setting.name: setting.value for setting in self.plan.env},
        }

    @property
    def cpu_cores(self) -> int:
        """Cores that a CPU server asks for and computes with."""
        return self.site.cpus or CPU_CORES

    @property
    def shutdown_timeout(self) -> int:
        """Seconds that vLLM lets requests in flight finish: the plan's, or the default above."""
        planned = self.plan.setting("shutdown-timeout")
        return SHUTDOWN_TIMEOUT_SECONDS if planned is None else math.ceil(float(str(planned)))

    @property
    def grace_seconds(self) -> int:
        """From the decision to stop until SIGKILL: pre-stop, drain and a margin."""
        return PRE_STOP_SECONDS + self.shutdown_timeout + DRAIN_MARGIN_SECONDS

    @property
    def measured_cold_start(self) -> float | None:
        """Slowest measured start of what will be served (else of its reference), seconds; None without a start."""
        runs = self.report.engine_runs if self.report else ()
        candidates = [run for run in runs if run.role == "candidate"] or runs
        return max((run.cold_start_seconds for run in candidates), default=None)

    @property
    def startup_budget(self) -> int:
        """Seconds before a start counts as failed."""
        return max(STARTUP_FLOOR_SECONDS, math.ceil(STARTUP_FACTOR * (self.measured_cold_start or 0.0)))

    @property
    def client_url(self) -> str:
        """Where a client on the same machine reaches the local or the compose server."""
        return client_url(self.site.host, self.site.port)

    def serve_arguments(self, model: str, config: str, host: str, port: int) -> list[str]:
        """What follows `vllm`: a model, the configuration, and what only the place knows."""
        line = ["serve", model, "--config", config, "--host", host, "--port", str(port)]
        planned = self.plan.setting("shutdown-timeout") is not None
        return line if planned else [*line, "--shutdown-timeout", str(self.shutdown_timeout)]

    @property
    def container_arguments(self) -> list[str]:
        """`serve_arguments` inside a container."""
        return self.serve_arguments(self.model_in_container, CONFIG_IN_CONTAINER, "0.0.0.0", CONTAINER_PORT)


def client_url(host: str, port: int) -> str:
    """Where a client on this machine reaches a server that listens on `host`."""
    return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
