"""How many rows a parameter has, as a number and as an expression on `config`."""

from dataclasses import dataclass

from autoadapter.artifacts.decoder import Attention, LatentAttention, Mlp, Moe, Value
from autoadapter.generate.plugin.expressions import expression


@dataclass(frozen=True)
class Rows:
    """Rows of a parameter, or of its part in a group."""

    number: int
    text: str

    def in_each(self, groups: Value, per: Value) -> "Rows":
        """Its rows in each of `groups`, where it is `per` equal blocks of these rows."""
        blocks = int(per.number) // int(groups.number)
        if blocks <= 1:
            return self
        each = f"({self.text})" if " " in self.text else self.text
        return Rows(self.number * blocks, f"{expression(per)} // {expression(groups)} * {each}")


def block_of(mixer: object, leaf: str, hidden_size: Value) -> tuple[Rows, Value] | None:
    """The smallest block of a projection's rows and how many of them it has; None of one that is never cut.

    Args:
        mixer: whose projection it is.
        leaf: `q_proj`, `gate_proj`.
        hidden_size: of the decoder.
    """
    if isinstance(mixer, Attention):
        values = mixer.v_head_dim or mixer.head_dim
        blocks = {
            "q_proj": (mixer.head_dim, mixer.num_heads),
            "k_proj": (mixer.head_dim, mixer.num_kv_heads),
            "v_proj": (values, mixer.num_kv_heads),
            "gate_proj": (values, mixer.num_heads),
        }
        found = blocks.get(leaf)
        if leaf == "gate_proj" and mixer.gate and mixer.gate.width == "head":
            return Rows(1, "1"), mixer.num_heads
        return (_head(found[0], mixer, hidden_size), found[1]) if found else None
    if isinstance(mixer, Moe):
        return block_of(mixer.expert, leaf, hidden_size)
    if isinstance(mixer, Mlp) and leaf in ("gate_proj", "up_proj"):
        return Rows(1, "1"), mixer.intermediate_size
    return _block_of_latent(mixer, leaf) if isinstance(mixer, LatentAttention) else None


def _head(width: Value, mixer: Attention, hidden_size: Value) -> Rows:
    """The width of a head; one that no key states is the hidden size's share."""
    number = int(width.number)
    if width.key is None and number * int(mixer.num_heads.number) == hidden_size.number:
        return Rows(number, f"{expression(hidden_size)} // {expression(mixer.num_heads)}")
    return Rows(number, expression(width))


def _block_of_latent(mixer: LatentAttention, leaf: str) -> tuple[Rows, Value] | None:
    one = Value(number=1)
    if leaf == "kv_a_proj":
        parts = (mixer.kv_lora_rank, mixer.qk_rope_head_dim)
        return Rows(sum(int(part.number) for part in parts), " + ".join(map(expression, parts))), one
    if leaf == "q_a_proj" and mixer.q_lora_rank:
        return Rows(int(mixer.q_lora_rank.number), expression(mixer.q_lora_rank)), one
    return None
