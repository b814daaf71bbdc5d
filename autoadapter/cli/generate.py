"""`autoadapter generate`."""

from typing import TYPE_CHECKING

from autoadapter.cli.common import chosen_route, pipeline, planning, relative
from autoadapter.cli.options import (
    ConcurrencyOpt,
    EngineArgOpt,
    EngineOpt,
    ForceOpt,
    HardwareOpt,
    InputLenOpt,
    JsonOpt,
    MaxLenOpt,
    OutputLenOpt,
    RecipesOpt,
    RouteOpt,
    SchemeOpt,
    ServedNameOpt,
    StrategyOpt,
    VllmOpt,
    WorkspaceOpt,
)
from autoadapter.cli.output import Out
from autoadapter.units import human_bytes

if TYPE_CHECKING:
    from autoadapter.artifacts import ServingPlan


def generate(
    workspace: WorkspaceOpt = None,
    strategy: StrategyOpt = "balanced",
    hardware: HardwareOpt = "cpu",
    scheme: SchemeOpt = None,
    max_model_len: MaxLenOpt = None,
    served_name: ServedNameOpt = None,
    input_len: InputLenOpt = None,
    output_len: OutputLenOpt = None,
    concurrency: ConcurrencyOpt = None,
    engine_arg: EngineArgOpt = None,
    recipes: RecipesOpt = None,
    route: RouteOpt = None,
    engine_python: EngineOpt = None,
    vllm_version: VllmOpt = None,
    force: ForceOpt = False,
    json: JsonOpt = False,
) -> None:
    """Plan the deployment and render the adapter: vLLM config, tokenizer adapter, tests.

    For example:

      autoadapter generate --strategy max_perf --hardware h200:8

      autoadapter generate --strategy min_mem --hardware l4 --max-model-len 8192
    """
    from autoadapter.workspace import current_workspace

    out = Out(as_json=json)
    settings = planning(
        strategy=strategy,
        hardware=hardware,
        scheme=scheme,
        max_model_len=max_model_len,
        served_name=served_name,
        input_len=input_len,
        output_len=output_len,
        concurrency=concurrency,
        engine_args=engine_arg,
        recipes=recipes,
    )
    opened = current_workspace(workspace)
    settings |= {"route": chosen_route(route), "vllm_version": vllm_version}
    settings |= {"engine_python": engine_python, "force": force}
    with pipeline(opened, out, "generate", **settings) as stages:
        outcome = stages.generate()
    if json:
        out.document(outcome.artifact.model_dump(mode="json"))
    else:
        show_plan(out, outcome.artifact)
        out.line(f"Written: {relative(outcome.path)} and {relative(outcome.path.parent / 'adapter')}/", style="dim")
    out.next_step(f"autoadapter optimize -w {relative(opened.root)}")


def show_plan(out: Out, plan: "ServingPlan") -> None:
    """The plan with every reason."""
    memory, layout = plan.memory, plan.parallelism
    sizes = zip(("TP", "PP", "DP"), layout.model_dump().values(), strict=True)
    out.heading(f"{plan.served_name}: {plan.strategy} on {plan.hardware.text}, vLLM {plan.vllm_version}")
    out.facts(
        [
            ("scheme", f"{plan.scheme.name}: {plan.scheme.why}"),
            ("layout", " × ".join(f"{name} {size}" for name, size in sizes)),
            (
                "memory",
                f"{human_bytes(memory.weight_bytes)} weights + {human_bytes(memory.overhead_bytes)} other (estimate) + "
                f"{human_bytes(memory.kv_pool_bytes)} KV of {human_bytes(memory.device_bytes)} a device",
            ),
            (
                "KV cache",
                f"{memory.kv_tokens:,} tokens a replica: {memory.max_concurrency:.1f} requests of full length",
            ),
        ]
    )
    out.heading("Settings")
    out.explained([(f"{row.flag} = {_text(row.value)}", row.why, row.source) for row in plan.settings])
    out.explained([(f"{row.name}={row.value}", row.why, row.source) for row in plan.env])
    if plan.rejected:
        out.heading("Not taken")
        out.explained([(row.choice, row.reason, row.source) for row in plan.rejected])
    out.findings(plan.findings)


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
