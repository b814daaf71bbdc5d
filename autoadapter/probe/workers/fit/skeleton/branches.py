"""The branches of one layer with their norms and scales."""

from dataclasses import replace

from autoadapter.artifacts.decoder import Norm, Value
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse
from autoadapter.probe.workers.fit.norms import ROUNDING
from autoadapter.probe.workers.fit.skeleton.flow import alike, enclosing, flow_of, plain, same_elements
from autoadapter.probe.workers.fit.skeleton.normal import Normed, Norms
from autoadapter.probe.workers.fit.skeleton.parts import BranchSkeleton, LayerSkeleton
from autoadapter.probe.workers.fit.skeleton.recomposing import recompose
from autoadapter.probe.workers.fit.skeleton.scales import bind_scale
from autoadapter.probe.workers.fit.skeleton.stream import Leaf, Reading, Step, Stream
from autoadapter.probe.workers.fit.skeleton.telling import scale_evidence
from autoadapter.probe.workers.fit.skeleton.terms import Term
from autoadapter.probe.workers.fit.skeleton.watching import call_of
from autoadapter.probe.workers.scene import Block, Scene
from autoadapter.probe.workers.trace import Seen


def layer_blocks(scene: Scene, layer: int) -> LayerSkeleton:
    """The branches of a layer, each with its block, norms and scales.

    Raises:
        UnexplainedError: the layer is no residual stream that blocks join; names the layer.
    """
    call = call_of(scene, layer)
    norms = Norms(scene, flow_of(scene.trace))
    stream = Stream(scene, norms, call, hidden_ends(scene, layer))
    writer = _Writer(stream, layer)
    for step in stream.steps():
        writer.write(step)
    error = recompose(scene, stream, writer.branches)
    if error > ROUNDING:
        raise stream.refusal(f"recomposed from its branches it is off by {error:.1e}")
    return LayerSkeleton(layer, tuple(writer.branches), error)


def hidden_ends(scene: Scene, layer: int) -> tuple[Seen, Seen]:
    """The hidden states that a layer is given, and those that it returns.

    A layer may leave its last sum to whoever comes next, and return both summands; the sum is meant then.
    """
    call = call_of(scene, layer)
    if layer > 0:
        return _returned(scene, layer - 1), _returned(scene, layer)
    out = next(seen for seen in call.outs if _hidden(seen, scene))
    return next(seen for seen in call.ins if _hidden(seen, scene) and alike(seen, out)), _returned(scene, layer)


def _returned(scene: Scene, layer: int) -> Seen:
    flow, call = flow_of(scene.trace), call_of(scene, layer)
    outs = tuple(dict.fromkeys(flow.root(seen) for seen in call.outs if _hidden(seen, scene)))
    same = {seen for seen in outs if alike(seen, outs[0])}
    for event in scene.trace.events[call.last :] if len(same) == 2 else ():
        if plain(event.name) == "add" and set(flow.ins(event)) == same:
            return flow.root(event.outs[0])
    return outs[0]


def _hidden(seen: Seen, scene: Scene) -> bool:
    shape = seen.value.shape
    return seen.value.is_floating_point() and len(shape) >= 2 and scene.ids.shape[1] in shape[:-1]


class _Writer:
    """Writes steps of the stream down as branches."""

    def __init__(self, stream: Stream, layer: int) -> None:
        self.stream, self.layer = stream, layer
        self.branches: list[BranchSkeleton] = []
        self._inputs: list[Normed | None] = []
        self._waiting: Normed | None = None

    def write(self, step: Step) -> None:
        """Add what one step adds."""
        if step.norm is not None:
            self._normed(step.norm)
            return
        own = [leaf for leaf in step.leaves if leaf.reading.state is step.before.seen]
        for at, leaf in enumerate([*own, *(leaf for leaf in step.leaves if leaf not in own)]):
            self.branches.append(self._branch(step, leaf, at))
            self._waiting = None

    def _normed(self, norm: Normed) -> None:
        if not self.branches:
            if self._waiting is not None:
                raise self.stream.refusal("the residual stream is normed twice")
            self._waiting = norm
            return
        last = self.branches[-1]
        if last.post_norm is not None:
            raise self.stream.refusal("the residual stream is normed twice")
        uses, evidence = _told(norm.norm, "post_norm")
        self.branches[-1] = replace(
            last, post_norm=norm.norm.value, uses=last.uses + uses, evidence=last.evidence + evidence
        )

    def _branch(self, step: Step, leaf: Leaf, at: int) -> BranchSkeleton:
        reading, normed = leaf.reading, self._waiting
        own = reading.state is step.before.seen
        input_norm = normed or reading.norm
        shared = self._shared(input_norm)
        self._check(step, leaf, own and at == 0, shared)
        branch = BranchSkeleton(
            block=self._block(leaf, reading),
            reads="stream" if own and at == 0 else "layer_input",
            input_norm=input_norm.norm.value if input_norm and shared is None else None,
            shares_norm_with=shared,
            input_scale=self._scale(reading.scale, "input"),
            output_scale=self._scale(leaf.term, "output"),
            stream_scale=self._scale(step.before, "stream") if at == 0 else None,
            keeps_normed=normed is not None,
        )
        for place in ("input_scale", "output_scale", "stream_scale"):
            branch = replace(branch, evidence=branch.evidence + scale_evidence(getattr(branch, place), 0.0, place))
        self._inputs.append(input_norm)
        if input_norm is not None and shared is None:
            branch = _with(branch, input_norm.norm, "input_norm")
        output = self._output_norm(leaf)
        return (
            branch
            if output is None
            else replace(_with(branch, output.norm, "output_norm"), output_norm=output.norm.value)
        )

    def _check(self, step: Step, leaf: Leaf, follows: bool, shared: int | None) -> None:
        reading, first = leaf.reading, self.stream.start
        if self._waiting is not None and (reading.norm is not None or reading.state is not step.before.seen):
            raise self.stream.refusal("a branch does not read the normed stream as it passes")
        if not follows and shared is None and reading.state is not first:
            raise self.stream.refusal("a branch reads the stream as it was before an earlier branch joined")

    def _shared(self, norm: Normed | None) -> int | None:
        if norm is None:
            return None
        same = (known is not None and same_elements(known.out.value, norm.out.value) for known in self._inputs)
        return next((i for i, known in enumerate(same) if known), None)

    def _output_norm(self, leaf: Leaf) -> Normed | None:
        norm = self.stream.norms.into(leaf.term.seen, self.stream.within)
        return norm if norm is not None and norm.source not in self.stream.states else None

    def _block(self, leaf: Leaf, reading: Reading) -> Block:
        output = self._output_norm(leaf)
        y = output.source if output else leaf.term.seen
        flow = self.stream.flow
        events = flow.between(reading.x, y)
        module = enclosing(flow.trace, events, self.stream.call.path)
        return Block(self.layer, module, flow.as_rows(reading.x), flow.as_rows(y), events, leaf.mixes)

    def _scale(self, term: Term, place: str) -> Value | None:
        return bind_scale(self.stream.scene.config, term, place)


def _with(branch: BranchSkeleton, norm: Fitted[Norm], place: str) -> BranchSkeleton:
    uses, evidence = _told(norm, place)
    return replace(branch, uses=branch.uses + uses, evidence=branch.evidence + evidence)


def _told(norm: Fitted[Norm], place: str) -> tuple[tuple[ParameterUse, ...], tuple]:
    uses = tuple(replace(use, targets=tuple(f"{place}.{target}" for target in use.targets)) for use in norm.uses)
    return uses, tuple(item.model_copy(update={"path": f"{place}.{item.path}"}) for item in norm.evidence)
