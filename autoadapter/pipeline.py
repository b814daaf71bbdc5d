"""The five stages in order. Each reads what the one before it wrote, and is skipped while its inputs are the same."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from autoadapter import __version__
from autoadapter import analyze as analyze_room
from autoadapter.artifacts import (
    AdapterBundle,
    Artifact,
    Belief,
    Deployment,
    ModelKind,
    ModelProfile,
    OptimizedModel,
    ServingPlan,
    Sizing,
    VerificationReport,
)
from autoadapter.engine import EngineTarget, find_engine
from autoadapter.engine.target import DEFAULT_VLLM_VERSION, interpreter
from autoadapter.errors import MissingPartError, UserError
from autoadapter.freshness import file_digest, has_its_weights, is_as_rendered, tool_digest
from autoadapter.hardware import parse_hardware
from autoadapter.lazy import on_first_use
from autoadapter.model_code import model_code, told_route
from autoadapter.options import Options, validated, workload_for
from autoadapter.progress import Progress, silent
from autoadapter.rendering import write_atomically
from autoadapter.rendering.model_section import write_analysis_page
from autoadapter.workspace import StageRecords, Workspace

if TYPE_CHECKING:
    from autoadapter import deploy as deploy_room
    from autoadapter import generate as generate_room
    from autoadapter import optimize as optimize_room
    from autoadapter import plan as plan_room
    from autoadapter import verify as verify_room
else:
    deploy_room = on_first_use("autoadapter.deploy")
    generate_room = on_first_use("autoadapter.generate")
    optimize_room = on_first_use("autoadapter.optimize")
    plan_room = on_first_use("autoadapter.plan")
    verify_room = on_first_use("autoadapter.verify")

Result = TypeVar("Result", bound=Artifact)
STAGES = ("analyze", "generate", "optimize", "test", "deploy")


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """What a stage returned, and whether it had to run."""

    artifact: Result
    path: Path
    skipped: bool
    seconds: float
    sizings: tuple[Sizing, ...] = ()
    """Of `analyze`: what the model needs, on the hardware asked for first."""


@dataclass(frozen=True)
class Stage(Generic[Result]):
    """Where a stage writes, and how to tell that its outputs are still what it wrote."""

    name: str
    folder: Path
    """Holds the record of the inputs."""
    path: Path
    """The artifact's file."""
    kind: type[Result]
    intact: Callable[[Result, Path], bool] = lambda *_: True


@dataclass(frozen=True)
class Pipeline:
    """One workspace, one set of options, one place to tell progress."""

    workspace: Workspace
    options: Options
    progress: Progress = silent

    def analyze(self) -> Outcome[ModelProfile]:
        """Headers and configs → `profile.json`."""
        ref, path = self.workspace.mark.model, self.workspace.profile_path
        version, engine, platform = self._target()
        inputs = {
            "model": analyze_room.input_digest(ref),
            "vllm": version,
            "transformers": engine.packages.get("transformers") if engine else None,
            "platform": platform,
            "remote_code": self.options.trust_remote_code,
            "model_impl": self.options.model_impl,
            "recipes": self.options.recipes and file_digest(self.options.recipes),
            "tool": tool_digest(),
        }

        def work() -> ModelProfile:
            profile = analyze_room.analyze(
                ref,
                vllm_version=engine or version,
                platform=platform,
                trust_remote_code=self.options.trust_remote_code,
                model_impl=self.options.model_impl,
                progress=self.progress,
            )
            profile = self.options.with_recipe_findings(profile)
            told = StageRecords(self.workspace.root)
            told.remember("platform", {"platform": platform, "model_impl": self.options.model_impl})
            told.remember("trust", {"remote_code": self.options.trust_remote_code})
            return _replace(self.workspace, path, profile)

        outcome = self._run(Stage("analyze", self.workspace.root, path, ModelProfile), inputs, work)
        return replace(outcome, sizings=self._size(outcome.artifact))

    def _size(self, profile: ModelProfile) -> tuple[Sizing, ...]:
        """What the model needs on the hardware asked for, in `sizing.json`; beside a CPU also on common GPUs."""
        plan_room.require_context(profile, self.options.max_model_len)
        request = plan_room.SizingRequest(
            hardware=parse_hardware(self.options.hardware),
            vllm_version=profile.verdict.vllm_version,
            max_model_len=self.options.max_model_len,
            **self.options.sizing_flags,
        )
        asked = plan_room.size_model(profile, request)
        write_atomically(self.workspace.root / Sizing.file_name, asked.to_json())
        nobody_said = self.options.common_hardware and request.hardware.kind == "cpu"
        others = plan_room.common_hardware(profile, request) if nobody_said else ()
        sizings = (asked, *others)
        write_analysis_page(self.workspace.root, profile, sizings)
        return sizings

    def generate(self) -> Outcome[ServingPlan]:
        """Profile → plan and adapter. The plan itself takes milliseconds and is always computed."""
        began = time.monotonic()
        profile = self._current_profile()
        plan = plan_room.make_plan(profile, self._plan_request(profile))
        folder = self.workspace.adopt_plan(plan)
        code = model_code(self.workspace, self.options, self.progress, plan)
        inputs = {"plan": plan.digest(), "profile": profile.digest(), "tool": tool_digest()}
        inputs |= {"spec": code.spec.digest()} if code else {}

        def work() -> AdapterBundle:
            return generate_room.render_adapter(profile, plan, folder / "adapter", code)

        adapter = folder / "adapter" / AdapterBundle.file_name
        rendered = self._run(Stage("generate", folder, adapter, AdapterBundle, is_as_rendered), inputs, work)
        return Outcome(plan, folder / plan.file_name, rendered.skipped, time.monotonic() - began)

    def replan(self) -> Outcome[ServingPlan]:
        """Another plan beside the current one: the same choices, changed by this call's scheme and engine arguments."""
        _, current, _ = self._planned()
        said = {row.flag: row.value for row in current.settings if row.belief is Belief.USER}
        users = {flag: value[0] if isinstance(value, tuple) else value for flag, value in said.items()}
        chosen = current.scheme.name if current.scheme.source == "--scheme" else None
        changes = {
            "strategy": current.strategy,
            "hardware": current.hardware.text,
            "workload": current.workload.model_dump(),
            "scheme": self.options.scheme or chosen,
            "engine_args": {**users, **self.options.engine_args},
        }
        return replace(self, options=self.options.model_copy(update=changes)).generate()

    def optimize(self) -> Outcome[OptimizedModel]:
        """Plan → checkpoint that the engine loads, with its cost in quality."""
        profile, plan, folder = self._planned()
        request = optimize_room.OptimizeRequest(
            profile=profile,
            plan=plan,
            reference_folder=self.workspace.reference,
            folder=folder / "optimized",
            logs=folder / "logs",
            python=interpreter(self.options.engine_python),
            calibration=self.options.calibration,
            samples=self.options.samples,
            trust_remote_code=self.options.trust_remote_code,
        )
        inputs = {
            "plan": plan.digest(),
            "calibration": file_digest(self.options.calibration),
            "samples": self.options.samples,
            "model": analyze_room.input_digest(profile.ref),
            "remote_code": self.options.trust_remote_code,
            "version": __version__,
        }
        path = folder / "optimized" / OptimizedModel.file_name
        stage = Stage("optimize", folder, path, OptimizedModel, has_its_weights)
        return self._run(stage, inputs, lambda: optimize_room.optimize(request, self.progress))

    def test(self) -> Outcome[VerificationReport]:
        """Checkpoint → evidence. A failed check is in the report, not an exception.

        A report of some checks alone lies in `partial/`: it must not pass for the whole in `deploy`.
        """
        profile, plan, folder = self._planned()
        optimized = OptimizedModel.read(folder / "optimized" / OptimizedModel.file_name)
        engine = self._engine("serving the model")
        options = self.options
        place = folder / "partial" if options.only else folder
        inputs = {
            "optimized": optimized.digest(),
            "adapter": file_digest(folder / "adapter" / "adapter.json"),
            "depth": options.depth,
            "only": options.only,
            "cases": options.test_cases,
            "engine": engine.packages,
            "remote_code": options.trust_remote_code,
            "version": __version__,
        }
        request = verify_room.VerifyRequest(
            profile=profile,
            plan=plan,
            optimized=optimized,
            adapter=folder / "adapter",
            engine=engine,
            depth=options.depth,
            folder=place,
            logs=folder / "logs",
            only=options.only,
            test_cases=options.test_cases,
            trust_remote_code=options.trust_remote_code,
            workspace=self.workspace.root,
            sizing=self._sizing_of(profile, plan),
        )
        path = place / VerificationReport.file_name

        def work() -> VerificationReport:
            self.workspace.set_aside(path)
            return verify_room.verify(request, self.progress)

        html = path.with_suffix(".html")
        return self._run(Stage("test", place, path, VerificationReport, lambda *_: html.exists()), inputs, work)

    def deploy(self) -> Outcome[Deployment]:
        """Plan, checkpoint and evidence → bundle."""
        _, plan, folder = self._planned()
        optimized = OptimizedModel.read(folder / "optimized" / OptimizedModel.file_name)
        report_path = folder / VerificationReport.file_name
        report = VerificationReport.read(report_path) if report_path.exists() else None
        options = self.options
        site = self._site()
        request = deploy_room.DeployRequest(
            plan=plan,
            optimized=optimized,
            adapter=folder / "adapter",
            report=report,
            targets=options.targets,
            site=site,
            folder=folder / "bundle",
            require_passed=options.require_passed,
            report_html=folder / "report.html",
        )
        deploy_room.check(request)
        inputs = {
            "optimized": optimized.digest(),
            "report": report and report.digest(),
            "targets": options.targets,
            "site": site.model_dump(mode="json"),
            "tool": tool_digest(),
            "adapter": file_digest(folder / "adapter" / "adapter.json"),
        }
        path = folder / "bundle" / Deployment.file_name
        stage = Stage("deploy", folder, path, Deployment, lambda *_: deploy_room.is_untouched(request.folder))
        return self._run(stage, inputs, lambda: deploy_room.deploy(request, self.progress))

    def bundle(self) -> Outcome[Deployment]:
        """The bundle of the current plan and report, for whatever place it was written; a new one if there is none.

        The gate of `deploy` holds here too: a bundle that was written untested does not pass for a tested one.
        """
        _, plan, folder = self._planned()
        path, report = folder / "bundle" / Deployment.file_name, folder / VerificationReport.file_name
        if path.exists():
            found = Deployment.read(path)
            proof = VerificationReport.read(report) if report.exists() else None
            same = (found.plan_digest, found.report_digest) == (plan.digest(), proof.digest() if proof else None)
            if same and (not self.options.require_passed or (proof and proof.passed)):
                return Outcome(found, path, True, 0.0)
        return self.deploy()

    def _run(self, stage: "Stage[Result]", inputs: dict[str, Any], work: Callable[[], Result]) -> Outcome[Result]:
        """Skip a stage whose inputs are unchanged and whose outputs are still what it wrote."""
        began, records, path = time.monotonic(), StageRecords(stage.folder), stage.path
        if not self.options.force and records.is_fresh(stage.name, inputs, path):
            found = stage.kind.read(path)
            if stage.intact(found, path):
                return Outcome(found, path, True, time.monotonic() - began)
        artifact = work()
        records.remember(stage.name, inputs)
        return Outcome(artifact, path, False, time.monotonic() - began)

    def _current_profile(self) -> ModelProfile:
        """The profile, analyzed anew where the model or the platform of this plan is another than it speaks of.

        What `analyze` was told (vLLM version, trust) still holds. A Hub model stands for the commit that was analyzed;
        it is not asked for again, so a plan can be made offline.
        """
        path, told = self.workspace.profile_path, StageRecords(self.workspace.root)
        if not path.exists():
            return self.analyze().artifact
        known, platform = ModelProfile.read(path), parse_hardware(self.options.hardware).kind
        route = self.options.route or told_route(told, platform)
        asked = self.options.model_copy(update={"route": route})
        engine = {"platform": platform, "model_impl": asked.model_impl}
        same = self.options.vllm_version in (None, known.verdict.vllm_version)
        if same and known.ref.kind is ModelKind.HUB and told.is_fresh("platform", engine):
            return known
        choices = {
            "vllm_version": self.options.vllm_version or known.verdict.vllm_version,
            "trust_remote_code": self.options.trust_remote_code or told.is_fresh("trust", {"remote_code": True}),
        }
        return replace(self, options=asked.model_copy(update=choices)).analyze().artifact

    def _sizing_of(self, profile: ModelProfile, plan: ServingPlan) -> Sizing | None:
        """What `analyze` sized, if it speaks of this profile on the plan's hardware."""
        path = self.workspace.root / Sizing.file_name
        known = Sizing.read(path) if path.exists() else None
        fits = known is not None and (known.profile_digest, known.hardware.text) == (
            profile.digest(),
            plan.hardware.text,
        )
        return known if fits else None

    def _planned(self) -> tuple[ModelProfile, ServingPlan, Path]:
        folder = self.workspace.plan_folder
        profile = ModelProfile.read(self.workspace.profile_path)
        return profile, ServingPlan.read(folder / ServingPlan.file_name), folder

    def _plan_request(self, profile: ModelProfile) -> "plan_room.PlanRequest":
        options = self.options
        return plan_room.PlanRequest(
            strategy=options.strategy,
            hardware=parse_hardware(options.hardware),
            workload=workload_for(options.max_model_len or profile.max_model_len, options.workload),
            vllm_version=profile.verdict.vllm_version,
            scheme=options.scheme,
            max_model_len=options.max_model_len,
            served_name=options.served_name,
            recipe=self.options.recipe_of(profile.ref),
            engine_args=options.engine_args,
        )

    def _site(self) -> "deploy_room.Site":
        options = self.options
        unknown = sorted(set(options.site) - set(deploy_room.Site.model_fields))
        if unknown:
            raise UserError(
                f"--site knows no {unknown[0]!r}.", hint=f"Known: {', '.join(deploy_room.Site.model_fields)}"
            )
        named = {"host": options.host, "port": options.port, "image": options.image}
        return validated(deploy_room.Site, {**named, **options.site}, "--site")

    def _engine(self, needed_for: str) -> EngineTarget:
        return find_engine(self.options.engine_python, needed_for=needed_for)

    def _target(self) -> tuple[str, EngineTarget | None, Any]:
        """VLLM version that the verdict speaks of (named, installed or the default), its installation, and platform."""
        platform, named = parse_hardware(self.options.hardware).kind, self.options.vllm_version
        try:
            engine: EngineTarget | None = self._engine("the verdict")
        except MissingPartError:
            engine = None
        except UserError:
            if not named:
                raise
            engine = None
        version = named or (engine.version if engine else DEFAULT_VLLM_VERSION)
        return version, engine if engine and engine.version == version else None, platform


def open_workspace(
    model: str, revision: str | None, folder: Path | None, *, follow_symlinks: bool = False
) -> Workspace:
    """Resolve a model and open (and lock later) its workspace."""
    ref = analyze_room.resolve_model(model, revision=revision, follow_symlinks=follow_symlinks)
    return Workspace.open_for(ref, folder)


def _replace(workspace: Workspace, path: Path, artifact: Result) -> Result:
    text = artifact.to_json()
    if path.is_file() and path.read_text(encoding="utf-8") != text:
        workspace.set_aside(path)
    write_atomically(path, text)
    return artifact
