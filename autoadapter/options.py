"""What a user may choose, in one place: the commands, the Python API and the pipeline share it."""

import difflib
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError, field_validator

from autoadapter.artifacts import Depth, Frozen, ModelKind, ModelProfile, ModelRef, Strategy, Target, Workload
from autoadapter.errors import UserError
from autoadapter.families import Recipe, recipe_findings, recipe_for, require_folder

Choice = TypeVar("Choice", bound=StrEnum)
Model = TypeVar("Model", bound=BaseModel)
Scalar = bool | int | float | str
EXAMPLES = {"--engine-arg": "max-num-seqs=32", "--site": "namespace=inference"}


class Options(Frozen):
    """Everything that steers a run. Defaults are what the commands document."""

    strategy: Strategy = Strategy.BALANCED
    hardware: str = "cpu"
    scheme: str | None = None
    max_model_len: int | None = None
    served_name: str | None = None
    workload: dict[str, int] = Field(default_factory=dict)
    """What the user said of `input_len`, `output_len` (tokens) and `concurrency` (requests)."""
    recipes: Path | None = None
    """Folder of vLLM's public recipes; the one of this very Hub id gives flags and parsers."""
    engine_args: dict[str, Scalar] = Field(default_factory=dict)
    """`vllm serve` options by name, dashes or underscores; they beat every other source."""
    depth: Depth = Depth.SMOKE
    only: tuple[str, ...] = ()
    test_cases: tuple[str, ...] = ()
    targets: tuple[Target, ...] = tuple(Target)
    image: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    site: dict[str, Scalar] = Field(default_factory=dict)
    """Facts of the place of deployment: `namespace`, `replicas`, `weights_pvc`, … (fields of `deploy.Site`)."""
    require_passed: bool = True
    calibration: Path | None = None
    samples: int = 64
    engine_python: Path | None = None
    vllm_version: str | None = None
    trust_remote_code: bool = False
    route: Literal["auto", "transformers", "generated"] | None = None
    """The route to take whatever comes first; None: as `analyze` was told."""
    common_hardware: bool = True
    """`analyze` for a CPU shows common GPUs beside it: nobody said which hardware is meant."""
    follow_symlinks: bool = False
    """Links in a model's folder may lead out of it; remembered with the model."""
    force: bool = False

    @property
    def model_impl(self) -> Literal["auto", "transformers", "generated"]:
        """The route asked for: by name, or by the engine argument that forces vLLM's Transformers modeling backend."""
        if self.route is not None:
            return self.route
        said = {name.replace("_", "-"): value for name, value in self.engine_args.items()}
        return "transformers" if said.get("model-impl") == "transformers" else "auto"

    @property
    def sizing_flags(self) -> dict[str, Any]:
        """Engine arguments that change what a model needs, by their names in a sizing request."""
        said = {name.replace("-", "_"): value for name, value in self.engine_args.items()}
        return {name: said[name] for name in ("gpu_memory_utilization", "kv_cache_dtype") if name in said}

    @field_validator("recipes")
    @classmethod
    def _is_a_folder(cls, recipes: Path | None) -> Path | None:
        """Told before any work, and for models without a recipe too."""
        if recipes is not None:
            require_folder(recipes)
        return recipes

    def recipe_of(self, ref: ModelRef) -> Recipe | None:
        """The recipe of a Hub model, where a folder of them is named.

        Raises:
            UserError: the folder or its file cannot be read.
        """
        if self.recipes is None or ref.kind is not ModelKind.HUB:
            return None
        return recipe_for(self.recipes, ref.location)

    def with_recipe_findings(self, profile: ModelProfile) -> ModelProfile:
        """The profile, and what is to be told of a recipe that was looked for."""
        if self.recipes is None:
            return profile
        found = recipe_findings(self.recipe_of(profile.ref), profile.verdict.vllm_version, self.recipes)
        return profile.model_copy(update={"findings": (*profile.findings, *found)})


def workload_for(max_model_len: int, given: dict[str, int]) -> Workload:
    """The user's workload; what was not said is the default, shrunk to a context that is shorter than it."""
    usual = Workload()
    output_len = min(usual.output_len, max(max_model_len // 4, 1))
    fitting = {"input_len": min(usual.input_len, max(max_model_len - output_len, 1)), "output_len": output_len}
    return Workload.model_validate({**fitting, **given})


def choose(kind: type[Choice], text: str, option: str) -> Choice:
    """A member of an enumeration by its text.

    Raises:
        UserError: no such member; the nearest is suggested.
    """
    known = [member.value for member in kind]
    wanted = text.strip().lower().replace("-", "_")
    if wanted in known:
        return kind(wanted)
    near = difflib.get_close_matches(wanted, known, n=1)
    question = f" Did you mean {near[0]}?" if near else ""
    raise UserError(f"Unknown {option} {text!r}.{question}", hint=f"Known: {', '.join(known)}")


def validated(kind: type[Model], given: dict[str, Any], option: str) -> Model:
    """A model from what the user typed.

    Raises:
        UserError: a value of the wrong kind; the field is named.
    """
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise UserError(f"{option} {field}={first['input']!r} will not do: {first['msg']}.") from None


def parse_pairs(pairs: tuple[str, ...], option: str = "--engine-arg") -> dict[str, Scalar]:
    """`NAME=VALUE` pairs → typed values: numbers and true/false are recognised, the rest is text.

    Raises:
        UserError: a pair without `=`.
    """
    return dict(_parse_pair(pair, option) for pair in pairs)


def _parse_pair(pair: str, option: str) -> tuple[str, Scalar]:
    name, equals, value = pair.removeprefix("--").partition("=")
    if not name or not equals:
        raise UserError(f"{option} {pair!r} is not NAME=VALUE.", hint=f"Example: {option} {EXAMPLES[option]}")
    return name.strip(), _typed(value.strip())


def _typed(text: str) -> Scalar:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
