"""Softmax attention in rendered code."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoadapter.artifacts.decoder import Attention, DecoderSpec, Norm, OutputGate, Value
from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.views.alibi import AlibiView
from autoadapter.generate.plugin.views.choices import Choices
from autoadapter.generate.plugin.views.lines import wrapped
from autoadapter.generate.plugin.views.norms import NormClass, norm_use
from autoadapter.generate.plugin.views.rope import RopeView, rope_view

LAYERS = "vllm.model_executor.layers"
GATES = {"sigmoid": "torch.sigmoid", "softplus": "nn.functional.softplus", "silu": "nn.functional.silu"}


@dataclass(frozen=True)
class NormPart:
    """A norm of an attention: its constructor call, and how heads are laid out for it."""

    made: str
    by_head: bool


@dataclass(frozen=True)
class GateView:
    """The output gate."""

    function: str
    by_head: bool
    bias: bool
    scale: str | None

    @classmethod
    def of(cls, gate: OutputGate) -> "GateView":
        """The view of a spec's gate."""
        scale = expression(gate.scale) if gate.scale else None
        return cls(GATES[gate.activation], gate.width == "head", gate.bias, scale)


@dataclass(frozen=True)
class AttentionView:
    """One attention class, of the kinds of layers that it serves."""

    class_name: str
    choices: tuple[str, ...]
    hidden_size: str
    num_heads: str
    num_kv_heads: str | None
    """None: as many as query heads."""
    head_dim: str
    v_head_dim: str | None
    scale: str
    bias: bool
    biased: str
    """Which of queries, keys and values have a bias, where not all have: `queries and values`."""
    o_bias: bool
    clip: str | None
    q_norm: NormPart | None
    k_norm: NormPart | None
    v_norm: NormPart | None
    sub_norm: str | None
    norm_after_rope: bool
    rope: RopeView | None
    key_scale: str | None
    value_scale: str | None
    softcap: str | None
    window: str | None
    chunk: str | None
    alibi: AlibiView | None
    sinks: bool
    gate: GateView | None
    needs_rank: bool
    helpers: tuple[NormClass, ...]
    imports: frozenset[tuple[str, str]]
    uses_kind_names: bool
    padded: tuple[str, ...] = ()
    """Which of q, k, v are narrower than the kernel's heads."""
    kind: str = "attention"
    takes_positions: bool = True

    @property
    def early_norms(self) -> tuple[tuple[str, NormPart], ...]:
        """Norms of queries, keys and values, in order."""
        norms = {"q_norm": self.q_norm, "k_norm": self.k_norm, "v_norm": self.v_norm}
        return tuple((name, norm) for name, norm in norms.items() if norm)

    @property
    def norm_lines(self) -> tuple[str, ...]:
        """Statements that make the norms."""
        made = [wrapped(f"self.{name} = {norm.made}") for name, norm in self.early_norms]
        made += [wrapped(f"self.attn_sub_norm = {self.sub_norm}")] if self.sub_norm else []
        return tuple(line for lines in made for line in lines)

    @property
    def kernel_dim(self) -> str:
        """Head width of the kernel."""
        return "self.v_head_dim" if self.padded == ("q", "k") else "self.head_dim"

    @property
    def kv_heads(self) -> str:
        """How many key and value heads a rank has."""
        return "self.num_kv_heads" if self.num_kv_heads else "self.num_heads"

    @property
    def kv_size(self) -> str:
        """Width of a rank's keys."""
        return "self.kv_size" if self.num_kv_heads else "self.q_size"

    @property
    def v_size(self) -> str:
        """Width of a rank's values."""
        return "self.v_size" if self.v_head_dim else self.kv_size

    @property
    def uses_q_size(self) -> bool:
        """Whether anything asks for the width of a rank's queries: the split of unequal parts, a norm over it."""
        norms = [norm.made for norm in (self.q_norm, self.k_norm, self.v_norm) if norm]
        in_norm = any("self.q_size" in made for made in (*norms, self.sub_norm or ""))
        return in_norm or self.num_kv_heads is not None or self.v_head_dim is not None

    @property
    def needs_kv_shard(self) -> bool:
        """Whether weights of key norms lie over the ranks."""
        norm = self.k_norm
        return norm is not None and "num_kv_replicas" in norm.made

    @property
    def v_dim(self) -> str:
        """Width of a value head."""
        return "self.v_head_dim" if self.v_head_dim else "self.head_dim"

    @classmethod
    def of(cls, mixers: Mapping[int, Attention], spec: DecoderSpec, class_name: str) -> "AttentionView":
        """The class for the attentions of some kinds, which have one `shape`.

        Raises:
            UnsupportedModelError: it cannot be computed by vLLM's attention.
        """
        first = next(iter(mixers.values()))
        _refuse(first)
        choices = Choices(spec)
        build = _Builder(dict(mixers), spec, choices)
        norms = {name: build.norm(name) for name in ("q_norm", "k_norm", "v_norm")}
        parts: dict[str, Any] = build.sizes() | norms | build.extras()
        return cls(
            class_name=class_name,
            sub_norm=build.sub_norm(),
            rope=rope_view(mixers, spec, choices, int(first.head_dim.number)),
            o_bias=first.o_bias,
            bias=first.q_bias or first.k_bias or first.v_bias,
            biased=_biased(first),
            norm_after_rope=first.norm_after_rope,
            sinks=first.sinks,
            alibi=AlibiView.of(first.alibi) if first.alibi else None,
            gate=GateView.of(first.gate) if first.gate else None,
            needs_rank=bool(first.alibi) or build.needs_rank,
            helpers=tuple(build.helpers),
            imports=_imports(first, build, bool(choices.lines)),
            choices=choices.lines,
            uses_kind_names=choices.uses_kind_names,
            padded=_padded(first),
            **parts,
        )


def shape(mixer: Attention) -> str:
    """What two attentions must have in common for one class to serve both, as text."""
    plain = mixer.model_copy(update={"rope": None, "window": None})
    chunked = mixer.window is not None and mixer.window.kind == "chunked"
    return f"{without_numbers(plain.model_dump(mode='json'))} chunked={chunked}"


def without_numbers(node: Any) -> Any:
    """A document in which every `Value` is replaced by a word."""
    if isinstance(node, dict):
        return "value" if "factor" in node else {key: without_numbers(item) for key, item in node.items()}
    return node


def _refuse(mixer: Attention) -> None:
    if mixer.causal_offset:
        raise UnsupportedModelError(
            f"attention.causal_offset={mixer.causal_offset}: vLLM's attention lets a token see itself."
        )
    weighted = [norm for norm in (mixer.q_norm, mixer.k_norm) if norm and norm.weight != "none"]
    if mixer.rope and mixer.rope.negative and mixer.norm_after_rope and weighted:
        raise UnsupportedModelError("attention.rope.negative with weights in norms after it cannot be rendered.")
    if mixer.sub_norm and mixer.v_head_dim:
        raise UnsupportedModelError("attention.sub_norm with another attention.v_head_dim cannot be rendered.")


def _padded(mixer: Attention) -> tuple[str, ...]:
    if mixer.v_head_dim is None:
        return ()
    return ("v",) if mixer.v_head_dim.number < mixer.head_dim.number else ("q", "k")


def _biased(mixer: Attention) -> str:
    flags = {"queries": mixer.q_bias, "keys": mixer.k_bias, "values": mixer.v_bias}
    named = [name for name, flag in flags.items() if flag]
    return " and ".join(named) if 0 < len(named) < 3 else ""


class _Builder:
    """Collects the expressions of one class, with the helper classes and imports that they need."""

    def __init__(self, mixers: dict[int, Attention], spec: DecoderSpec, choices: Choices) -> None:
        self.mixers = mixers
        self.first = next(iter(mixers.values()))
        self.spec = spec
        self.choices = choices
        self.helpers: list[NormClass] = []
        self.imports: set[tuple[str, str]] = set()
        self.needs_rank = False

    def pick(self, name: str) -> str | None:
        """The expression of an optional number."""
        values: dict[int, Value | None] = {kind: getattr(mixer, name) for kind, mixer in self.mixers.items()}
        return self.choices.pick_value(values) if any(values.values()) else None

    def sizes(self) -> dict[str, str | None]:
        """Counts and widths of heads."""
        first, spec = self.first, self.spec
        same = all(_same(mixer.num_heads, mixer.num_kv_heads) for mixer in self.mixers.values())
        head_dim = {kind: _head_dim(mixer, spec) for kind, mixer in self.mixers.items()}
        return {
            "hidden_size": expression(spec.hidden_size),
            "num_heads": self.pick("num_heads"),
            "num_kv_heads": None if same else self.pick("num_kv_heads"),
            "head_dim": self.choices.pick(head_dim),
            "v_head_dim": self.pick("v_head_dim") if first.v_head_dim else None,
            "scale": self.choices.pick({kind: _scale(mixer) for kind, mixer in self.mixers.items()}),
        }

    def extras(self) -> dict[str, str | None]:
        """Numbers that only some models have."""
        windows = {kind: mixer.window.size if mixer.window else None for kind, mixer in self.mixers.items()}
        window = self.choices.pick_value(windows) if any(windows.values()) else None
        chunked = self.first.window is not None and self.first.window.kind == "chunked"
        return {
            "clip": self.pick("clip"),
            "key_scale": self.pick("key_scale"),
            "value_scale": self.pick("value_scale"),
            "softcap": self.pick("softcap"),
            "window": None if chunked else window,
            "chunk": window if chunked else None,
        }

    def norm(self, name: str) -> NormPart | None:
        """A norm of queries, keys or values."""
        norm: Norm | None = getattr(self.first, name)
        if norm is None:
            return None
        heads = "self.num_heads" if name == "q_norm" else self._kv_heads
        width = self.first.norm_width
        if width == "head":
            dim = "self.v_head_dim" if name == "v_norm" and self.first.v_head_dim else "self.head_dim"
            return NormPart(self._made(name, norm, dim), by_head=True)
        if name == "v_norm":
            raise UnsupportedModelError(f"attention.v_norm with attention.norm_width={width} cannot be rendered.")
        self.needs_rank = True
        grouped = name != "q_norm" and self._kv_heads != "self.num_heads"
        shard = ", shard=tp_rank // num_kv_replicas" if grouped else ", shard=tp_rank"
        if width == "full":
            size = "self.kv_size" if grouped else "self.q_size"
            return NormPart(self._made(name, norm, size, "width", shard), by_head=False)
        return NormPart(self._made(name, norm, f"{heads}, self.head_dim", "heads", shard), by_head=True)

    def sub_norm(self) -> str | None:
        """The norm before the output projection."""
        if self.first.sub_norm is None:
            return None
        self.needs_rank = True
        return self._made("sub_norm", self.first.sub_norm, "self.q_size", "width", ", shard=tp_rank")

    @property
    def _kv_heads(self) -> str:
        same = all(_same(mixer.num_heads, mixer.num_kv_heads) for mixer in self.mixers.values())
        return "self.num_heads" if same else "self.num_kv_heads"

    def _made(self, name: str, norm: Norm, width: str, split: Any = "none", more: str = "") -> str:
        eps = self.choices.pick_value({kind: getattr(mixer, name).eps for kind, mixer in self.mixers.items()})
        use = norm_use(norm, split=split, groups=expression(norm.groups) if norm.groups else None)
        self.imports |= use.imports
        if use.helper:
            self.helpers.append(use.helper)
        return use.made(width, eps, more)


def _same(one: Value, other: Value) -> bool:
    return one == other or (other.key is None and one.number == other.number)


def _head_dim(mixer: Attention, spec: DecoderSpec) -> str:
    stated = mixer.head_dim
    if stated.key is None and stated.number * mixer.num_heads.number == spec.hidden_size.number:
        return f"{expression(spec.hidden_size)} // self.total_num_heads"
    return expression(stated)


def _scale(mixer: Attention) -> str:
    scale, head_dim = mixer.scale, mixer.head_dim
    usual = abs(scale.number - head_dim.number**-0.5) < 1e-6 * scale.number
    unbound = scale.key is None or (scale.key == head_dim.key and scale.factor == head_dim.factor**-0.5)
    return "self.head_dim**-0.5" if usual and unbound else expression(scale)


def _imports(mixer: Attention, build: _Builder, has_choices: bool) -> frozenset[tuple[str, str]]:
    linear = f"{LAYERS}.linear"
    found = build.imports | {
        ("torch", ""),
        ("vllm.distributed", "get_tensor_model_parallel_world_size"),
        (linear, "QKVParallelLinear"),
        (linear, "RowParallelLinear"),
    }
    chunked = mixer.window is not None and mixer.window.kind == "chunked"
    if chunked:
        found.add((f"{LAYERS}.attention.chunked_local_attention", "ChunkedLocalAttention"))
    else:
        found.add((f"{LAYERS}.attention", "Attention"))
    optional = {
        ("vllm.distributed", "get_tensor_model_parallel_rank"): bool(mixer.alibi) or build.needs_rank,
        (f"{LAYERS}.rotary_embedding", "get_rope"): any(one.rope for one in build.mixers.values()),
        (linear, "ColumnParallelLinear"): mixer.gate is not None,
        ("vllm.model_executor.utils", "set_weight_attrs"): mixer.sinks,
        ("vllm.model_executor.model_loader.weight_utils", "sharded_weight_loader"): mixer.sinks,
        ("vllm.model_executor.models.utils", "extract_layer_index"): has_choices,
        ("math", ""): mixer.alibi is not None,
    }
    return frozenset(found | {name for name, wanted in optional.items() if wanted})
