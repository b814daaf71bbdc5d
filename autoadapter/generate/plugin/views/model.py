"""The model file: embedding, layers, final norm, head."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from autoadapter.artifacts.decoder import DecoderSpec, LayerRule
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.loading import LoadingView
from autoadapter.generate.plugin.views.alibi import AlibiView
from autoadapter.generate.plugin.views.choices import label_expression
from autoadapter.generate.plugin.views.embedding import EmbeddingView
from autoadapter.generate.plugin.views.head import HeadView
from autoadapter.generate.plugin.views.imports import LINE, import_lines
from autoadapter.generate.plugin.views.layer import LayerView, is_fused, wiring_key
from autoadapter.generate.plugin.views.lines import wrapped
from autoadapter.generate.plugin.views.mixers import Mixers
from autoadapter.generate.plugin.views.moe import MoeView
from autoadapter.generate.plugin.views.norms import NormClass, norm_use
from autoadapter.generate.plugin.views.recurrent import RecurrentView, StateView

HEADS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "DecoderForCausalLM", "LMHead", "Model")
MODELS = "vllm.model_executor.models"
BASE = (
    ("itertools", "islice"),
    ("torch", ""),
    ("torch", "nn"),
    ("vllm.compilation.decorators", "support_torch_compile"),
    ("vllm.config", "VllmConfig"),
    ("vllm.distributed", "get_pp_group"),
    (f"{MODELS}.interfaces", "SupportsLoRA"),
    (f"{MODELS}.interfaces", "SupportsPP"),
    (f"{MODELS}.interfaces", "SupportsQuant"),
    (f"{MODELS}.utils", "PPMissingLayer"),
    (f"{MODELS}.utils", "make_empty_intermediate_tensors_factory"),
    (f"{MODELS}.utils", "make_layers"),
    (f"{MODELS}.utils", "maybe_prefix"),
    ("vllm.sequence", "IntermediateTensors"),
    (".fingerprint", "require_fitted"),
)


def class_prefix(architecture: str) -> str:
    """What the module's classes are called by: `Llama` of `LlamaForCausalLM`."""
    found = next((head for head in HEADS if architecture.endswith(head) and architecture != head), "")
    return architecture.removesuffix(found)


@dataclass(frozen=True)
class KindNames:
    """The module's function that names the kind of a layer."""

    labels: tuple[str, ...]
    """Statement that makes the tuple of a layer's labels."""
    rows: tuple[tuple[str, str], ...]
    """Labels as a literal, and the kind's name."""
    layers: tuple[str, ...]
    """Where no rule is known: the name of each layer's kind."""

    @classmethod
    def of(cls, spec: DecoderSpec) -> "KindNames":
        """The function for a spec's pattern."""
        pattern = spec.pattern
        labels = [_label(rule, spec) for rule in pattern.rules]
        rows = tuple(("(" + ", ".join(f'"{label}"' for label in row) + ("," if len(row) == 1 else "") + ")",
                      spec.kinds[kind].name) for row, kind in pattern.table)  # fmt: skip
        items = ", ".join(labels) + ("," if len(labels) == 1 else "")
        statement = wrapped(f"labels = ({items})", 4)
        return cls(statement, rows, () if pattern.table else tuple(spec.kinds[kind].name for kind in pattern.kinds))


def _label(rule: LayerRule, spec: DecoderSpec) -> str:
    text = label_expression(rule)
    return f"str({text})" if rule.rule == "list" and not _holds_words(rule, spec) else text


def _holds_words(rule: LayerRule, spec: DecoderSpec) -> bool:
    stated: Any = spec.config_seen
    for part in (rule.key or "").split("."):
        stated = stated.get(part) if isinstance(stated, dict) else None
    return isinstance(stated, list) and all(isinstance(item, str) for item in stated)


@dataclass(frozen=True)
class ModelModule:
    """`model.py` of the package."""

    template: ClassVar[str] = "plugin/__package__/model.py.j2"

    tool_version: str
    architecture: str
    model_type: str
    prefix: str
    num_layers: str
    hidden_size: str
    vocab_size: str
    mixers: tuple[Any, ...]
    layers: tuple[LayerView, ...]
    layer_classes: tuple[tuple[str, str], ...]
    """Kind's name and layer class, where kinds have classes of their own."""
    embedding: EmbeddingView
    norm: str | None
    head: HeadView
    loading: LoadingView
    kind_names: KindNames | None
    alibi: AlibiView | None
    norm_helpers: tuple[NormClass, ...]
    clears_window: bool
    """The config's `sliding_window` is not of all layers: vLLM must not give it to the others."""

    @classmethod
    def of(cls, spec: DecoderSpec, vllm_version: str) -> "ModelModule":
        """The view of a spec.

        Raises:
            UnsupportedModelError: something of the spec cannot be rendered; the message names the field.
        """
        prefix = class_prefix(spec.architecture)
        mixers = Mixers.of(spec, prefix, vllm_version)
        layers, classes = _layers(spec, prefix, mixers)
        embedding = EmbeddingView.of(spec)
        head = HeadView.of(spec)
        helpers, norm = list(embedding.helpers + head.helpers), None
        if spec.norm:
            use = norm_use(spec.norm, groups=expression(spec.norm.groups) if spec.norm.groups else None)
            norm = use.made(expression(spec.hidden_size), expression(spec.norm.eps))
            helpers += [use.helper] if use.helper else []
        for part in (*mixers.views, *layers):
            helpers += getattr(part, "helpers", ())
        named = len(classes) > 1 or any(getattr(part, "uses_kind_names", False) for part in (*mixers.views, *layers))
        return cls(
            tool_version=spec.tool_version,
            architecture=spec.architecture,
            model_type=spec.model_type,
            prefix=prefix,
            num_layers=expression(spec.num_layers),
            hidden_size=expression(spec.hidden_size),
            vocab_size=expression(spec.vocab_size),
            mixers=mixers.views,
            layers=layers,
            layer_classes=classes if len(layers) > 1 else (),
            embedding=embedding,
            norm=norm,
            head=head,
            loading=LoadingView.of(spec),
            kind_names=KindNames.of(spec) if named else None,
            alibi=next((part.alibi for part in mixers.views if getattr(part, "alibi", None)), None),
            norm_helpers=tuple(dict.fromkeys(helpers)),
            clears_window=_clears_window(spec),
        )

    @property
    def fused(self) -> bool:
        """Whether the residual travels beside the hidden states."""
        return self.layers[0].fused

    @property
    def experts(self) -> MoeView | None:
        """The class of the routed experts."""
        return next((mixer for mixer in self.mixers if isinstance(mixer, MoeView)), None)

    @property
    def state(self) -> StateView | None:
        """What is kept of each sequence beside keys and values."""
        return next((mixer.state for mixer in self.mixers if isinstance(mixer, RecurrentView)), None)

    @property
    def attends(self) -> bool:
        """Whether any layer has keys and values."""
        return any(mixer.kind in ("attention", "latent_attention") for mixer in self.mixers)

    @property
    def class_lines(self) -> tuple[str, ...]:
        """The head of the class with the head, with what vLLM may ask of it beside its answers."""
        state = ["HasInnerState", "IsHybrid" if self.attends else "IsAttentionFree"] if self.state else []
        experts = ["MixtureOfExperts"] if self.experts else []
        bases = ", ".join(["nn.Module", *state, "SupportsLoRA", "SupportsPP", "SupportsQuant", *experts])
        line = f"class {self.prefix}ForCausalLM({bases}):"
        return (line,) if len(line) <= LINE else (f"class {self.prefix}ForCausalLM(", f"    {bases}", "):")

    @property
    def splits_norms(self) -> bool:
        """Whether a norm's weight lies over the ranks."""
        return any(helper.split != "none" for helper in self.norm_helpers)

    @property
    def carried(self) -> tuple[str, ...]:
        """What pipeline stages hand on."""
        return ("hidden_states", "residual") if self.fused else ("hidden_states",)

    @cached_property
    def import_lines(self) -> tuple[str, ...]:
        """The import statements, sorted."""
        found: set[tuple[str, str]] = {*BASE, *self.loading.imports, *self.embedding.imports, *self.head.imports}
        parts: Iterable[Any] = (*self.mixers, *self.layers, *self.norm_helpers)
        for part in parts:
            found |= part.imports
        if self.layer_classes:
            found.add((f"{MODELS}.utils", "extract_layer_index"))
        if self.state:
            found.add((f"{MODELS}.interfaces", "IsHybrid" if self.attends else "IsAttentionFree"))
        if self.experts:
            found.add((f"{MODELS}.interfaces", "MixtureOfExperts"))
        return import_lines(found | self._norm_imports())

    def _norm_imports(self) -> set[tuple[str, str]]:
        names = {"RMSNorm", "GemmaRMSNorm"}
        used = (self.norm or "").split("(")[0]
        found = {("vllm.model_executor.layers.layernorm", used)} if used in names else set()
        return found | ({("transformers", "PretrainedConfig")} if self.kind_names else set())


def _layers(
    spec: DecoderSpec, prefix: str, mixers: Mixers
) -> tuple[tuple[LayerView, ...], tuple[tuple[str, str], ...]]:
    groups: dict[tuple[object, ...], list[int]] = {}
    fused = is_fused(spec)
    for number, kind in enumerate(spec.kinds):
        groups.setdefault(wiring_key(kind, fused), []).append(number)
    views, classes = [], []
    for kinds in groups.values():
        word = "" if len(groups) == 1 else "".join(part.title() for part in spec.kinds[kinds[0]].name.split("_"))
        name = f"{prefix}{word}DecoderLayer"
        views.append(LayerView.of({number: spec.kinds[number] for number in kinds}, spec, name, mixers.names))
        classes += [(spec.kinds[number].name, name) for number in kinds]
    return tuple(views), tuple(classes) if len(groups) > 1 else ()


def _clears_window(spec: DecoderSpec) -> bool:
    attentions = [branch.mixer for kind in spec.kinds for branch in kind.branches if hasattr(branch.mixer, "window")]
    everywhere = all(mixer.window and mixer.window.kind == "sliding" for mixer in attentions)
    return "sliding_window" in spec.config_seen and not everywhere
