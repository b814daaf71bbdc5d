"""The forward of a layer as statements: how its branches hang on the residual stream."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from autoadapter.artifacts.decoder import Branch, LayerKind, Value
from autoadapter.generate.plugin.names import NormRole, mixer_name, norm_name
from autoadapter.generate.plugin.views.norms import takes_residual

STREAM = "hidden_states"


def can_fuse(kind: LayerKind) -> bool:
    """Whether each branch is plain pre-norm, so that RMS norms can add the residual themselves."""
    return all(_is_plain(branch) for branch in kind.branches)


def _is_plain(branch: Branch) -> bool:
    odd = (branch.shares_norm_with, branch.input_scale, branch.output_scale, branch.stream_scale, branch.post_norm)
    plain = branch.reads == "stream" and not branch.keeps_normed and all(item is None for item in odd)
    return plain and takes_residual(branch.input_norm)


def scale_name(kind: LayerKind, index: int, role: str) -> str:
    """The layer's attribute for a multiplier of a branch: `residual_multiplier`, else `mlp_output_scale`."""
    value: Value | None = getattr(kind.branches[index], role)
    stated = re.split(r"\W", value.key)[-1] if value and value.key else ""
    is_plain = value is not None and value.form == "identity" and value.factor == 1
    return stated if is_plain and stated.isidentifier() else f"{mixer_name(kind, index)}_{role}"


@dataclass(frozen=True)
class Wiring:
    """Statements of a layer kind's forward."""

    kind: LayerKind

    def fused(self) -> Iterator[str]:
        """Statements on `hidden_states` and `residual`, in vLLM's idiom."""
        for index, branch in enumerate(self.kind.branches):
            norm = f"self.{norm_name(self.kind, index, 'input_norm')}"
            if index == 0:
                yield "if residual is None:"
                yield "    residual = hidden_states"
                yield f"    hidden_states = {norm}(hidden_states)"
                yield "else:"
                yield f"    hidden_states, residual = {norm}(hidden_states, residual)"
            else:
                yield f"hidden_states, residual = {norm}(hidden_states, residual)"
            yield f"hidden_states = {self._mixed(index, STREAM)}"
            if branch.output_norm:
                yield f"hidden_states = {self._norm(index, 'output_norm', STREAM)}"
        yield "return hidden_states, residual"

    def plain(self) -> Iterator[str]:
        """Statements on `hidden_states` alone."""
        count = self._parallel()
        branches = self.kind.branches
        if any(branch.reads == "layer_input" for branch in branches[max(count, 1) :]):
            yield "layer_input = hidden_states"
        if count > 1:
            yield from self._side_by_side(count)
        for index in range(count if count > 1 else 0, len(branches)):
            yield from self._in_turn(index)
        yield "return hidden_states"

    def _parallel(self) -> int:
        """How many of the first branches read the layer's input and are summed at once."""
        branches = self.kind.branches
        count = 0
        for index, branch in enumerate(branches):
            if index and (branch.reads != "layer_input" or branch.stream_scale):
                break
            if branch.keeps_normed or (index and branches[index - 1].post_norm):
                break
            count += 1
        return count

    def _side_by_side(self, count: int) -> Iterator[str]:
        terms = []
        for index in range(count):
            branch = self.kind.branches[index]
            name = self._normed_name(index)
            if branch.input_norm:
                yield f"{name} = {self._norm(index, 'input_norm', STREAM)}"
            elif branch.shares_norm_with is None:
                name = STREAM
            output = f"{mixer_name(self.kind, index)}_output"
            yield f"{output} = {self._mixed(index, name)}"
            if branch.output_norm:
                yield f"{output} = {self._norm(index, 'output_norm', output)}"
            terms.append(self._scaled(index, output, "output_scale"))
        stream = self._scaled(0, STREAM, "stream_scale")
        yield f"hidden_states = {' + '.join([stream, *terms])}"
        if self.kind.branches[count - 1].post_norm:
            yield f"hidden_states = {self._norm(count - 1, 'post_norm', STREAM)}"

    def _in_turn(self, index: int) -> Iterator[str]:
        branch = self.kind.branches[index]
        source = "layer_input" if branch.reads == "layer_input" and index else STREAM
        residual = "residual"
        if branch.shares_norm_with is not None:
            source = self._normed_name(index)
        normed = self._norm(index, "input_norm", source) if branch.input_norm else source
        if branch.keeps_normed:
            yield f"residual = {normed}"
            normed = residual
        else:
            yield "residual = hidden_states"
        if self._is_shared(index):
            yield f"{self._normed_name(index)} = {normed}"
            normed = self._normed_name(index)
        if branch.input_norm and not branch.keeps_normed and not self._is_shared(index):
            yield f"hidden_states = {normed}"
            normed = STREAM
        yield f"hidden_states = {self._mixed(index, normed)}"
        if branch.output_norm:
            yield f"hidden_states = {self._norm(index, 'output_norm', STREAM)}"
        stream = self._scaled(index, residual, "stream_scale")
        yield f"hidden_states = {stream} + {self._scaled(index, STREAM, 'output_scale')}"
        if branch.post_norm:
            yield f"hidden_states = {self._norm(index, 'post_norm', STREAM)}"

    def _is_shared(self, index: int) -> bool:
        return any(branch.shares_norm_with == index for branch in self.kind.branches)

    def _normed_name(self, index: int) -> str:
        branch = self.kind.branches[index]
        source = index if branch.shares_norm_with is None else branch.shares_norm_with
        return f"{mixer_name(self.kind, source)}_input"

    def _norm(self, index: int, role: NormRole, source: str) -> str:
        return f"self.{norm_name(self.kind, index, role)}({source})"

    def _mixed(self, index: int, source: str) -> str:
        scaled = self._scaled(index, source, "input_scale")
        takes_positions = self.kind.branches[index].mixer.mixer in ("attention", "latent_attention")
        return f"self.{mixer_name(self.kind, index)}({'positions, ' if takes_positions else ''}{scaled})"

    def _scaled(self, index: int, text: str, role: str) -> str:
        value = getattr(self.kind.branches[index], role)
        return f"{text} * self.{scale_name(self.kind, index, role)}" if value else text
