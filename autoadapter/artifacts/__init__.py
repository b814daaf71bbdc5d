"""The types that flow between stages (design: one JSON file each, frozen, strict, versioned)."""

from autoadapter.artifacts.base import SCHEMA_VERSION, Artifact, Frozen
from autoadapter.artifacts.deployment import (
    BundleFile,
    Deployment,
    Evidence,
    LocalServer,
    Target,
    Validation,
    WeightsRef,
)
from autoadapter.artifacts.finding import Finding, Level
from autoadapter.artifacts.model_profile import ModelProfile, Route, Verdict
from autoadapter.artifacts.model_ref import ModelKind, ModelRef, slugify
from autoadapter.artifacts.optimized_model import OptimizedModel, QualityDelta, StepRecord
from autoadapter.artifacts.serving_plan import (
    AdapterBundle,
    Belief,
    EngineSetting,
    EnvSetting,
    Hardware,
    MemoryBudget,
    Parallelism,
    Rejection,
    RenderedFile,
    Scheme,
    ServingPlan,
    Strategy,
    Workload,
)
from autoadapter.artifacts.verification_report import (
    CheckResult,
    Depth,
    EngineRun,
    Machine,
    Status,
    Threshold,
    VerificationReport,
)

__all__ = [
    "SCHEMA_VERSION",
    "AdapterBundle",
    "Artifact",
    "Belief",
    "BundleFile",
    "CheckResult",
    "Deployment",
    "Depth",
    "EngineRun",
    "EngineSetting",
    "EnvSetting",
    "Evidence",
    "Finding",
    "Frozen",
    "Hardware",
    "Level",
    "LocalServer",
    "Machine",
    "MemoryBudget",
    "ModelKind",
    "ModelProfile",
    "ModelRef",
    "OptimizedModel",
    "Parallelism",
    "QualityDelta",
    "Rejection",
    "RenderedFile",
    "Route",
    "Scheme",
    "ServingPlan",
    "Status",
    "StepRecord",
    "Strategy",
    "Target",
    "Threshold",
    "Validation",
    "Verdict",
    "VerificationReport",
    "WeightsRef",
    "Workload",
    "slugify",
]
