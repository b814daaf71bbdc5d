"""What the user wants, and what he said outright."""

import re

from pydantic import Field

from autoadapter.artifacts import Frozen, Hardware, ModelProfile, Strategy, Workload
from autoadapter.artifacts.serving_plan import SettingValue
from autoadapter.engine.flags import flag, value_problem
from autoadapter.errors import UserError
from autoadapter.families import Recipe

Scalar = bool | int | float | str

NOT_IN_A_PLAN = {
    "model": "the model is the plan's own",
    "host": "it belongs to the place of deployment: use the option of `deploy`",
    "port": "it belongs to the place of deployment: use the option of `deploy`",
    "api-key": "a plan is not a place for secrets: set VLLM_API_KEY where the server runs",
    "hf-token": "a plan is not a place for secrets, and the server runs offline",
    "data-parallel-size-local": "AutoAdapter plans one machine",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class PlanRequest(Frozen):
    """Input of `make_plan` beside the profile."""

    strategy: Strategy
    hardware: Hardware
    workload: Workload = Field(default_factory=Workload)
    vllm_version: str
    scheme: str | None = None
    """`--scheme`; None lets the strategy choose."""
    max_model_len: int | None = None
    """Tokens, prompt and answer together."""
    served_name: str | None = None
    recipe: Recipe | None = None
    """What vLLM's public recipes say of this very model (`--recipes`)."""
    engine_args: dict[str, Scalar] = Field(default_factory=dict)
    """`vllm serve` options by name, dashes or underscores; they beat every other source."""


class UserFlags(Frozen):
    """What the user said, by vLLM's own option names. Each value is of the option's kind."""

    values: dict[str, SettingValue]
    sources: dict[str, str]

    def integer(self, name: str) -> int | None:
        """The value of an integer option, None when the user left it."""
        value = self.values.get(name)
        return value if isinstance(value, int) else None

    def number(self, name: str) -> float | None:
        """The value of a number option, None when the user left it."""
        value = self.values.get(name)
        return float(value) if isinstance(value, int | float) else None

    def text(self, name: str) -> str | None:
        """The value of a text option, None when the user left it."""
        value = self.values.get(name)
        return value if isinstance(value, str) else None


def user_flags(request: PlanRequest) -> UserFlags:
    """Every option that the user set, checked against vLLM's vocabulary.

    Raises:
        UserError: an unknown option, a value of the wrong kind, or an option that has no place in a plan.
    """
    values: dict[str, SettingValue] = {}
    sources: dict[str, str] = {}
    for name, value in request.engine_args.items():
        row = flag(name)
        if row.name in NOT_IN_A_PLAN:
            raise UserError(f"--{row.name} cannot be planned: {NOT_IN_A_PLAN[row.name]}.")
        values[row.name] = (str(value),) if row.kind == "list" else value
        sources[row.name] = f"--engine-arg {row.name}"
        if problem := value_problem(row, values[row.name]):
            raise UserError(f"{problem}.", hint=f"autoadapter generate --engine-arg {row.name}=VALUE")
    if request.max_model_len is not None:
        values["max-model-len"], sources["max-model-len"] = request.max_model_len, "--max-model-len"
    if request.served_name is not None:
        values["served-model-name"], sources["served-model-name"] = (request.served_name,), "--served-name"
    _refuse_bad_name(values.get("served-model-name"))
    _refuse_negative_sizes(values)
    return UserFlags(values=values, sources=sources)


def _refuse_bad_name(names: SettingValue | None) -> None:
    for name in names if isinstance(names, tuple) else ():
        if not name.strip() or name.startswith("-") or _CONTROL.search(name):
            raise UserError(
                f"{name!r} cannot be a served model name: it is empty, starts with a dash or holds control characters.",
                hint="autoadapter generate --served-name NAME",
            )


SIZES = (
    "max-model-len",
    "max-num-seqs",
    "max-num-batched-tokens",
    "tensor-parallel-size",
    "pipeline-parallel-size",
    "data-parallel-size",
)


def _refuse_negative_sizes(values: dict[str, SettingValue]) -> None:
    for name in SIZES:
        value = values.get(name)
        if isinstance(value, int) and value < 1:
            raise UserError(f"--{name} must be at least 1, not {value}.", hint=f"Leave out --{name} or raise it.")
    share = values.get("gpu-memory-utilization")
    if isinstance(share, int | float) and not 0 < share <= 1:
        raise UserError(f"--gpu-memory-utilization is a share above 0 and at most 1, not {share}.")


def require_context(profile: ModelProfile, wanted: int | None) -> None:
    """Raise a UserError for a context that is none, or longer than the model's; None asks for nothing."""
    longest = profile.max_model_len
    if wanted is not None and wanted < 1:
        raise UserError(f"--max-model-len must be at least 1, not {wanted}.", hint="Leave it out or raise it.")
    if wanted is not None and wanted > longest:
        raise UserError(
            f"{profile.ref.name} has a context of {longest} tokens; --max-model-len {wanted} is more than that.",
            hint=f"Repeat the command with --max-model-len {longest} or less",
        )


def require_a_possible_request(profile: ModelProfile, request: PlanRequest, user: UserFlags) -> None:
    """Raise a UserError when the wish contradicts the model: more context than it has, or a workload above it."""
    wanted = user.integer("max-model-len")
    require_context(profile, wanted)
    work = request.workload
    need, have = work.input_len + work.output_len, wanted or profile.max_model_len
    if min(work.input_len, work.output_len, work.concurrency) < 1:
        raise UserError("A workload needs at least 1 input token, 1 output token and 1 request at once.")
    if need > have:
        raise UserError(
            f"The workload needs {need} tokens a request ({work.input_len} in, {work.output_len} out), "
            f"the context is {have}.",
            hint="Shorten the workload: --input-len, --output-len",
        )
