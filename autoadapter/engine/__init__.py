"""vLLM from the outside: its versions, options, log and processes. Nothing here imports vllm."""

from autoadapter.engine.process import EngineServer
from autoadapter.engine.target import EngineTarget, find_engine
from autoadapter.engine.worker import WorkerOutcome, run_worker

__all__ = ["EngineServer", "EngineTarget", "WorkerOutcome", "find_engine", "run_worker"]
