"""The two warm processes of a proof: vLLM in one, transformers in the other; in one process they disturb each other."""

import tempfile
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from autoadapter.engine.forks import ForkServer, JobEnd
from autoadapter.engine.target import EngineTarget

ENGINE_SIDE = "autoadapter.verify.workers.proof_engine"
REFERENCE_SIDE = "autoadapter.verify.workers.proof_reference"
ENGINE_MODULES = (
    "autoadapter.engine.launcher",
    ENGINE_SIDE,
    "vllm",
    "vllm.entrypoints.llm",
    "vllm.model_executor.models.registry",
    "vllm.model_executor.models.transformers",
    "vllm.v1.engine.core",
    "vllm.v1.engine.llm_engine",
)
PLATFORM_MODULES = {"cpu": ("vllm.v1.worker.cpu_worker",), "cuda": ()}
REFERENCE_MODULES = (REFERENCE_SIDE, "transformers.models.auto.modeling_auto", "transformers.modeling_utils")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""A tiny model gains nothing from more, and a process with one thread can be forked."""
ENGINE_ENV = {
    **ONE_THREAD,
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCHDYNAMO_DISABLE": "1",
}
PLATFORM_ENV = {
    "cpu": {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_MLA_DISABLE": "1"},
    "cuda": {},
}
"""The CPU's latent-attention kernel takes one shape, so latent attention is proved expanded there."""
TOLD_ENV = ("VLLM_MLA_DISABLE",)
"""Settings that change what is computed; a result names them."""


class Servers:
    """Both processes of one engine installation; each starts when it is first needed."""

    def __init__(self, engine: EngineTarget, folder: Path, *, reference_modules: tuple[str, ...] = ()) -> None:
        """Describe them.

        Args:
            engine: the installation; its interpreter runs the reference, too.
            folder: for logs, one file a job.
            reference_modules: more modules worth importing before the first fork of the reference.
        """
        self.engine_target, self.folder = engine, folder
        self._scratch = tempfile.TemporaryDirectory(prefix="autoadapter-proof-")
        self.scratch = Path(self._scratch.name)
        modules = (*ENGINE_MODULES, *PLATFORM_MODULES[engine.platform])
        env = {**ENGINE_ENV, **PLATFORM_ENV[engine.platform]}
        self._engine = ForkServer(engine.python, modules, log=folder / "engine-server.log", env=env)
        self._reference = ForkServer(
            engine.python,
            (*REFERENCE_MODULES, *reference_modules),
            log=folder / "reference-server.log",
            env={**ONE_THREAD, "CUDA_VISIBLE_DEVICES": ""},
        )

    def engine(self, function: str, arguments: dict[str, Any], *, log: str, timeout: float = 180.0) -> JobEnd:
        """Run a function of the engine's side in a fork."""
        return self._engine.call(f"{ENGINE_SIDE}:{function}", arguments, log=self.folder / log, timeout=timeout)

    def reference(self, function: str, arguments: dict[str, Any], *, log: str, timeout: float = 180.0) -> JobEnd:
        """Run a function of the reference's side, or `module:function`, in a fork."""
        where = function if ":" in function else f"{REFERENCE_SIDE}:{function}"
        return self._reference.call(where, arguments, log=self.folder / log, timeout=timeout)

    @cached_property
    def versions(self) -> dict[str, str]:
        """Versions of the engine and of what it imports, and the settings that change what is computed."""
        told = {name: version for name, version in self.engine_target.packages.items()}
        env = PLATFORM_ENV[self.engine_target.platform]
        return {**told, **{name: env[name] for name in TOLD_ENV if name in env}}

    def close(self) -> None:
        """End both. Safe to call twice."""
        self._engine.close()
        self._reference.close()
        self._scratch.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
