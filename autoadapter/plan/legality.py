"""Which layouts vLLM accepts, and why it refuses the others.

Source of the rules: vLLM 0.32 `config/model.py` (`verify_with_parallel_config`, `get_num_kv_heads`),
`vocab_parallel_embedding.py` (vocabulary padded to 64), `layers/linear.py` (`divide` of sharded dimensions).
"""

from dataclasses import dataclass

from autoadapter.artifacts import ModelProfile, Parallelism

VOCAB_PADDING = 64
MOST_TENSOR_PARALLEL = 16
"""Above one NVLink island tensor parallelism is not planned."""


@dataclass(frozen=True)
class Layout:
    """How the model is spread; `expert_parallel` keeps experts whole and deals them out over TP × DP ranks."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert_parallel: bool = False

    @property
    def devices(self) -> int:
        """Devices that the layout occupies."""
        return self.tensor * self.pipeline * self.data

    @property
    def text(self) -> str:
        """As a plan names it: `TP 2 × DP 4`."""
        parts = [f"TP {self.tensor}"]
        parts += [f"PP {self.pipeline}"] if self.pipeline > 1 else []
        parts += [f"DP {self.data}"] if self.data > 1 else []
        return " × ".join(parts) + (" with expert parallelism" if self.expert_parallel else "")

    def as_artifact(self) -> Parallelism:
        """The sizes as `plan.json` carries them."""
        return Parallelism(
            tensor_parallel_size=self.tensor, pipeline_parallel_size=self.pipeline, data_parallel_size=self.data
        )


def dense_width(profile: ModelProfile) -> int | None:
    """Width of the MLPs that tensor parallelism slices, None without any.

    Where every layer has experts `intermediate_size` is the experts' own width or unused; `expert_split_refusal` and
    expert parallelism look after those.
    """
    if profile.mlp is None or (profile.moe is not None and profile.moe.num_dense_layers == 0):
        return None
    return profile.mlp.intermediate_size


def tensor_refusal(profile: ModelProfile, tensor: int) -> str | None:
    """Why vLLM cannot split the model over `tensor` devices, or None."""
    if tensor == 1:
        return None
    attention, width = profile.attention, dense_width(profile)
    heads, kv_heads = attention.num_attention_heads, attention.num_key_value_heads
    vocab = -(-profile.embedding.vocab_size // VOCAB_PADDING) * VOCAB_PADDING
    if heads % tensor:
        return f"{heads} attention heads cannot be divided by {tensor}"
    if attention.kind != "mla" and kv_heads % tensor and tensor % kv_heads:
        return f"{kv_heads} key/value heads can be neither divided nor repeated over {tensor}"
    if vocab % tensor:
        return f"the vocabulary, padded to {vocab}, cannot be divided by {tensor}"
    if width is not None and width % tensor:
        return f"the intermediate size {width} cannot be divided by {tensor}"
    return None


def expert_split_refusal(profile: ModelProfile, ranks: int) -> str | None:
    """Why experts cannot be cut into `ranks` slices (without expert parallelism), or None."""
    moe = profile.moe
    if moe is None:
        return None
    if moe.moe_intermediate_size % ranks:
        return f"the experts' intermediate size {moe.moe_intermediate_size} cannot be divided by {ranks}"
    return _straddles(profile, moe.moe_intermediate_size // ranks)


def block_refusal(profile: ModelProfile, tensor: int) -> str | None:
    """Why a checkpoint that is quantized in groups cannot be split so, or None: a group may not straddle a shard.

    Source: vLLM 0.32 `distributed/utils.py` `divide` as called by the group-quantized linear methods.
    """
    width, attention = dense_width(profile), profile.attention
    shards = [] if width is None else [width // tensor]
    shards += [] if attention.kind == "mla" else [attention.num_attention_heads * attention.head_dim // tensor]
    return next((reason for shard in shards if tensor > 1 and (reason := _straddles(profile, shard))), None)


def _straddles(profile: ModelProfile, shard: int) -> str | None:
    quantization = profile.quantization
    group = quantization.group_size if quantization and quantization.method != "gguf" else None
    if not group or group < 0 or shard % group == 0:
        return None
    return f"its quantization groups of {group} straddle shards of {shard}"


def layouts(
    profile: ModelProfile, devices: int, replicas: int | None = None
) -> tuple[tuple[Layout, ...], dict[int, str]]:
    """Legal layouts on up to `devices` devices, smallest tensor size first, and refused tensor sizes with reasons.

    Data parallelism is none or all that the devices allow, unless `replicas` fixes it. Only powers of two are listed
    as refused; other sizes are used where they are legal.
    """
    legal: list[Layout] = []
    refused: dict[int, str] = {}
    for tensor in range(1, min(devices, MOST_TENSOR_PARALLEL) + 1):
        reason = tensor_refusal(profile, tensor) or block_refusal(profile, tensor)
        if reason:
            if tensor & (tensor - 1) == 0:
                refused[tensor] = reason
            continue
        sizes = _data(devices // tensor, replicas)
        legal += [_with_experts(profile, Layout(tensor=tensor, data=data)) for data in sizes]
        legal += [
            _with_experts(profile, Layout(tensor=tensor, pipeline=stages))
            for stages in range(2, min(devices // tensor, profile.attention.num_layers) + 1)
        ]
    return tuple(legal), refused


def _data(most: int, fixed: int | None) -> tuple[int, ...]:
    if fixed is not None:
        return (fixed,) if fixed <= most else ()
    return (1,) if most == 1 else (1, most)


def _with_experts(profile: ModelProfile, layout: Layout) -> Layout:
    """Experts stay whole wherever slices would be illegal or attention runs data-parallel."""
    ranks = layout.tensor * layout.data
    if profile.moe is None or ranks == 1:
        return layout
    whole = layout.data > 1 or expert_split_refusal(profile, ranks) is not None
    return Layout(layout.tensor, layout.pipeline, layout.data, expert_parallel=whole)
