"""One file per axis of a model: each reads one field of the profile. A new axis is one file and one line here."""

from autoadapter.analyze.axes.attention import read_attention
from autoadapter.analyze.axes.context import read_context
from autoadapter.analyze.axes.embedding import read_embedding
from autoadapter.analyze.axes.license import read_license
from autoadapter.analyze.axes.mlp import read_mlp
from autoadapter.analyze.axes.moe import read_moe
from autoadapter.analyze.axes.quantization import read_quantization
from autoadapter.analyze.axes.remote_code import read_remote_code
from autoadapter.analyze.axes.rope import read_rope
from autoadapter.analyze.axes.state import read_state
from autoadapter.analyze.axes.tokenizer import read_tokenizer
from autoadapter.analyze.reading import Axis

AXES: tuple[Axis, ...] = (
    read_attention,
    read_rope,
    read_mlp,
    read_moe,
    read_state,
    read_embedding,
    read_context,
    read_tokenizer,
    read_quantization,
    read_remote_code,
    read_license,
)
