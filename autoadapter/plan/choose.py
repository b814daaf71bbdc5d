"""Scheme and layout together: the first scheme, in the strategy's order, that some legal layout can hold."""

import shlex
from dataclasses import dataclass

from autoadapter.artifacts import Hardware, ModelProfile, Rejection, Workload
from autoadapter.engine.schemes import SchemeRow
from autoadapter.errors import DoesNotFitError, UnsupportedModelError, UserError
from autoadapter.hardware import gpu_of, gpus, parse_hardware
from autoadapter.plan.devices import stop_reason
from autoadapter.plan.layout import Candidate, best, cache_refusal, evaluate, fitting, legal_layouts
from autoadapter.plan.legality import tensor_refusal
from autoadapter.plan.overhead import GIB
from autoadapter.plan.request import PlanRequest, Scalar, UserFlags
from autoadapter.plan.schemes import SchemeChoice, as_scheme, scheme_choice, shape_refusal
from autoadapter.plan.weights import is_estimated, unreliable_estimate, weight_bytes

COUNTS = (1, 2, 4, 8, 16)
RULE_SOURCE = "plan/layout.py: the rule of the strategy"
LEGALITY_SOURCE = "vLLM 0.32 config/model.py and linear layers"


@dataclass(frozen=True)
class Choice:
    """What was chosen, and everything that was not."""

    candidate: Candidate
    rejected: tuple[Rejection, ...]


def choose(profile: ModelProfile, request: PlanRequest, user: UserFlags) -> Choice:
    """The best candidate.

    Raises:
        UserError: the user fixed a scheme or a layout that is not legal.
        UnsupportedModelError: the device cannot run the model at all.
        KvRefusedError: vLLM would refuse to lay out the model's cache under every layout.
        DoesNotFitError: nothing legal fits; `smallest` names hardware that would do.
    """
    found = find_choice(profile, request, user)
    if found is not None:
        return found
    refused = cache_refusal(profile, request, user, legal_layouts(profile, request.hardware, user)[0])
    raise refused or _does_not_fit(profile, request, user, scheme_choice(profile, request))


def find_choice(profile: ModelProfile, request: PlanRequest, user: UserFlags) -> Choice | None:
    """The best candidate; None where nothing legal fits. It looks for no other hardware. Raises as `choose` does."""
    _require_able(profile, request, user)
    options = scheme_choice(profile, request)
    _require_legal(profile, request, user)
    rejected = list(options.rejected)
    for row in options.candidates:
        candidates = fitting(profile, request, user, row, by_user=options.by_user)
        reason = "it does not fit under any legal layout"
        if candidates:
            usable, reason = _with_kernel(profile, row, candidates)
            if usable:
                chosen = best(usable, request)
                later = options.candidates[options.candidates.index(row) + 1 :]
                rejected += _passed_over(later, row)
                rejected += _layout_rejections(profile, request, user, usable, chosen)
                return Choice(chosen, tuple(rejected))
        rejected.append(Rejection(choice=row.name, reason=reason, source=row.source))
        if options.by_user and candidates:
            raise UserError(f"--scheme {row.name}: {reason}.", hint="Leave out --scheme and the strategy chooses.")
    return None


def _with_kernel(profile: ModelProfile, row: SchemeRow, candidates: list[Candidate]) -> tuple[list[Candidate], str]:
    reasons = [
        shape_refusal(profile, row, item.layout, on_cpu=item.situation.hardware.kind == "cpu") for item in candidates
    ]
    usable = [item for item, reason in zip(candidates, reasons, strict=True) if reason is None]
    return usable, next((reason for reason in reasons if reason), "")


def _passed_over(later: tuple[SchemeRow, ...], taken: SchemeRow) -> list[Rejection]:
    reason = f"{taken.name} comes first under this strategy and fits"
    return [Rejection(choice=row.name, reason=reason, source=row.source) for row in later]


def _layout_rejections(
    profile: ModelProfile, request: PlanRequest, user: UserFlags, usable: list[Candidate], chosen: Candidate
) -> list[Rejection]:
    legal, refused = legal_layouts(profile, request.hardware, user)
    found = [Rejection(choice=f"TP {size}", reason=why, source=LEGALITY_SOURCE) for size, why in refused.items()]
    fits = {item.layout for item in usable}
    for layout in legal:
        if layout == chosen.layout or layout.pipeline > 1:
            continue
        reason = f"{request.strategy.value} prefers {chosen.layout.text}"
        if layout not in fits:
            reason = f"it does not hold a request of {chosen.max_model_len} tokens beside the weights"
        found.append(Rejection(choice=layout.text, reason=reason, source=RULE_SOURCE))
    return found


def _require_legal(profile: ModelProfile, request: PlanRequest, user: UserFlags) -> None:
    legal, refused = legal_layouts(profile, request.hardware, user)
    if legal:
        return
    tensor = user.integer("tensor-parallel-size") or 1
    reason = refused.get(tensor) or tensor_refusal(profile, tensor)
    why = reason or f"{request.hardware.text} has {request.hardware.count} device(s) and no layout of those sizes"
    raise UserError(
        f"The layout that you fixed is not legal for {profile.ref.name}: {why}.",
        hint="Leave out the parallel sizes and AutoAdapter chooses a legal layout.",
    )


def _does_not_fit(
    profile: ModelProfile, request: PlanRequest, user: UserFlags, options: SchemeChoice
) -> DoesNotFitError:
    row = options.candidates[-1] if options.by_user else min(options.candidates, key=lambda row: row.served_bits or 16)
    legal, _ = legal_layouts(profile, request.hardware, user)
    needs = [weight_bytes(profile, as_scheme(profile, row, layout, by_user=False), layout) for layout in legal]
    smallest = smallest_that_fits(profile, request, user)
    device = request.hardware
    guess, doubt = "", unreliable_estimate(profile) if is_estimated(profile) else None
    if is_estimated(profile):
        guess = f" (a guess: {doubt})" if doubt else " (estimated, for want of tensor headers)"
    message = (
        f"{profile.ref.name} does not fit {device.text}: {min(needs) / GIB:.1f} GiB of weights a device{guess} under "
        f"{row.name}, beside overhead and the KV cache of one request, in {device.memory_bytes / GIB:.1f} GiB."
    )
    less = "Ask for less: a shorter --max-model-len or workload; no catalogued hardware fits as it is."
    hint = repeated(request, smallest) if smallest else less
    return DoesNotFitError(
        message if doubt or not smallest else f"{message} {smallest.text} holds it.",
        hint="Download the weights and plan again: the size is then read, not guessed." if doubt else hint,
        needed_bytes=min(needs),
        available_bytes=device.memory_bytes,
        smallest=smallest.text if smallest else None,
    )


def _require_able(profile: ModelProfile, request: PlanRequest, user: UserFlags) -> None:
    """Raise an UnsupportedModelError where the device cannot run the model, however it is laid out."""
    reason = stop_reason(profile, request.hardware)
    if reason is None:
        return
    other = smallest_that_fits(profile, request, user)
    raise UnsupportedModelError(
        f"{profile.ref.name} cannot run on {request.hardware.text}: {reason}.",
        hint=repeated(request, other)
        if other
        else "No catalogued GPU runs this checkpoint: take another format of it.",
    )


def repeated(request: PlanRequest, hardware: Hardware) -> str:
    """The command that asks for the same plan on other hardware; the workspace is left to whoever knows it."""
    usual = Workload()
    said: list[tuple[str, str | int | None]] = [
        ("--hardware", hardware.text),
        ("--strategy", request.strategy.value),
        ("--scheme", request.scheme),
        ("--max-model-len", request.max_model_len),
        ("--served-name", request.served_name),
        *((f"--{name.replace('_', '-')}", value) for name, value in request.workload if value != getattr(usual, name)),
        *(("--engine-arg", f"{name}={_typed(value)}") for name, value in request.engine_args.items()),
    ]
    words = [word for option, value in said if value is not None for word in (option, str(value))]
    return shlex.join(["autoadapter", "generate", *words])


def _typed(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def smallest_that_fits(profile: ModelProfile, request: PlanRequest, user: UserFlags) -> Hardware | None:
    """The cheapest catalogued hardware, by total memory, on which the same wish is planned without pipeline stages.

    More of the same device comes first.
    """
    same = [request.hardware.name] if request.hardware.kind == "cuda" else []
    names = same + [gpu.name for gpu in sorted(gpus(), key=lambda gpu: gpu.memory_gib) if gpu.name not in same]
    offers = [parse_hardware(f"{name}:{count}") for name in names for count in COUNTS]
    own = [offer for offer in offers if offer.name in same]
    others = sorted(offers, key=lambda offer: (offer.memory_bytes * offer.count, offer.count))
    wishes = (request.model_copy(update={"hardware": offer}) for offer in [*own, *others])
    return next((wish.hardware for wish in wishes if _holds(profile, wish, user)), None)


def _holds(profile: ModelProfile, request: PlanRequest, user: UserFlags) -> bool:
    """Whether `choose` finds a layout of plain tensor and data parallelism, under a scheme of the strategy."""
    gpu, offer = gpu_of(request.hardware), request.hardware
    if gpu is None or not gpu.is_served or stop_reason(profile, offer):
        return False
    try:
        options = scheme_choice(profile, request)
    except UserError:
        return False
    legal, _ = legal_layouts(profile, offer, user)
    plain = [layout for layout in legal if layout.pipeline == 1 and layout.devices <= offer.count]
    return any(
        evaluate(profile, request, user, layout, as_scheme(profile, row, layout, by_user=options.by_user))
        for row in options.candidates
        for layout in plain
        if shape_refusal(profile, row, layout, on_cpu=False) is None
    )
