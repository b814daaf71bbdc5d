"""The embedding in rendered code: scale, projection, absolute positions, norm."""

from dataclasses import dataclass

from autoadapter.artifacts.decoder import DecoderSpec, Positions
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.views.attention import LAYERS
from autoadapter.generate.plugin.views.norms import NormClass, norm_use
from autoadapter.generate.plugin.views.rope import max_positions


@dataclass(frozen=True)
class PositionsView:
    """Absolute positions that are added to the embeddings."""

    learned: bool
    rows: str
    offset: str
    """`""` or `" + 2"`."""
    interleaved: bool
    divisor: str
    """Of the exponents of the frequencies."""

    @classmethod
    def of(cls, positions: Positions, spec: DecoderSpec) -> "PositionsView":
        """The view of a spec's positions."""
        offset = f" + {positions.offset}" if positions.offset else ""
        divisor = "hidden_size // 2 - 1" if positions.frequencies == "fairseq" else "hidden_size // 2"
        return cls(
            positions.kind == "learned", _rows(positions, spec), offset, positions.order == "interleaved", divisor
        )


def _rows(positions: Positions, spec: DecoderSpec) -> str:
    rows, most = positions.rows, spec.max_positions
    offset = f" + {positions.offset}" if positions.offset else ""
    if rows is None:
        return max_positions(spec) + offset
    if rows.key is None and most and most.key and rows.number == most.number + positions.offset:
        return expression(most) + offset
    return expression(rows)


@dataclass(frozen=True)
class EmbeddingView:
    """How token ids become the first hidden states."""

    width: str
    is_projected: bool
    scale: str | None
    rounds_scale: bool
    positions: PositionsView | None
    norm: str | None
    helpers: tuple[NormClass, ...]
    imports: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, spec: DecoderSpec) -> "EmbeddingView":
        """The view of a spec's embedding."""
        embedding = spec.embedding
        found = {(f"{LAYERS}.vocab_parallel_embedding", "VocabParallelEmbedding")}
        hidden = expression(spec.hidden_size)
        norm: str | None = None
        helpers: tuple[NormClass, ...] = ()
        if embedding.norm:
            use = norm_use(embedding.norm, groups=_groups(spec))
            norm = use.made(hidden, expression(embedding.norm.eps))
            helpers = (use.helper,) if use.helper else ()
            found |= use.imports
        if embedding.width:
            found.add((f"{LAYERS}.linear", "ReplicatedLinear"))
        return cls(
            width=expression(embedding.width) if embedding.width else hidden,
            is_projected=embedding.width is not None,
            scale=expression(embedding.scale) if embedding.scale else None,
            rounds_scale=embedding.scale_in_weight_dtype,
            positions=PositionsView.of(embedding.positions, spec) if embedding.positions else None,
            norm=norm,
            helpers=helpers,
            imports=frozenset(found),
        )


def _groups(spec: DecoderSpec) -> str | None:
    norm = spec.embedding.norm
    return expression(norm.groups) if norm and norm.groups else None
