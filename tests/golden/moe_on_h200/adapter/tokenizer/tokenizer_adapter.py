"""Text to tokens and back as this model's server does it. Needs `tokenizers` and `jinja2`, nothing else.

Written by AutoAdapter 0.1.0 from adapter/tokenizer/tokenizer_adapter.py.j2; change the plan, not this file.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple, NoReturn, Self

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

Side = Literal["left", "right"]

MODEL: Final = "example/sparse-30b"
PADDING_SIDE: Final[Side] = "left"
SPECIAL_TOKENS: Final[dict[str, int]] = {
    "<|endoftext|>": 0,
    "<|im_start|>": 1,
    "<|im_end|>": 2,
}
"""Text to id; `SPECIAL_TEXTS` is the way back."""
SPECIAL_TEXTS: Final = {number: text for text, number in SPECIAL_TOKENS.items()}
ROLES: Final[dict[str, str]] = {
    "bos": "<|im_start|>",
    "eos": "<|im_end|>",
    "pad": "<|im_end|>",
    "unk": "<|endoftext|>",
}
"""What the chat template may call `bos_token`, `eos_token` and so on."""
STOP_TOKEN_IDS: Final[Sequence[int]] = [
    2,
]
"""A server ends an answer at any of these."""


class Batch(NamedTuple):
    """Token ids of equal length, and 1 where they are text, 0 where they are padding."""

    ids: list[list[int]]
    attention_mask: list[list[int]]


class TokenizerAdapter:
    """The model's tokenizer and chat template. Files are read, nothing of the checkpoint runs."""

    def __init__(self, tokenizer: Tokenizer, chat_template: str | None) -> None:
        """Wrap a tokenizer. Truncation and padding that its file configures are switched off, as servers do."""
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._template = compile_template(chat_template) if chat_template is not None else None

    @classmethod
    def from_folder(cls, folder: Path | str) -> Self:
        """Read `tokenizer.json` and the chat template of a model folder."""
        file = Path(folder) / "tokenizer.json"
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing: the model folder must hold a fast tokenizer.")
        return cls(Tokenizer.from_file(str(file)), read_chat_template(Path(folder)))

    @property
    def vocab_size(self) -> int:
        """Tokens that the tokenizer knows, added ones included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Text to ids. A rendered chat carries its special tokens already: pass `add_special_tokens=False`."""
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Ids to text."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def encode_batch(
        self,
        texts: Sequence[str],
        *,
        max_length: int | None = None,
        padding_side: Side = PADDING_SIDE,
        truncation_side: Side = "right",
    ) -> Batch:
        """Texts to ids of one length. Truncation leaves room for the special tokens that are added around a text."""
        room = None if max_length is None else max_length - self._tokenizer.num_special_tokens_to_add(is_pair=False)
        if room is not None and room < 1:
            raise ValueError(f"max_length {max_length} leaves no room for text beside the special tokens.")
        rows = []
        for text in texts:
            encoding = self._tokenizer.encode(text, add_special_tokens=False)
            if room is not None:
                encoding.truncate(room, direction=truncation_side)
            rows.append(list(self._tokenizer.post_process(encoding, add_special_tokens=True).ids))
        longest = max(map(len, rows), default=0)
        return Batch(
            ids=[_padded(row, longest, self.pad_token_id, padding_side) for row in rows],
            attention_mask=[_padded([1] * len(row), longest, 0, padding_side) for row in rows],
        )

    @property
    def pad_token_id(self) -> int:
        """The padding token, or the end token where the model has none; it is masked either way."""
        return SPECIAL_TOKENS.get(ROLES.get("pad", ROLES.get("eos", "")), 0)

    def render_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, object]] | None = None,
        **variables: object,
    ) -> str:
        """Messages to the prompt that the server sees; `variables` are what it calls `chat_template_kwargs`."""
        if self._template is None:
            raise ValueError("The model has no chat template.")
        tokens = {f"{role}_token": text for role, text in ROLES.items()}
        given = {"messages": messages, "tools": tools, "add_generation_prompt": add_generation_prompt}
        return self._template.render({"documents": None, **tokens, **given, **variables})


def _padded(row: list[int], length: int, value: int, side: Side) -> list[int]:
    padding = [value] * (length - len(row))
    return padding + row if side == "left" else row + padding


def read_chat_template(folder: Path) -> str | None:
    """`chat_template.jinja`, else the entry in `tokenizer_config.json` (`default` where there are several)."""
    file, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    if not config.is_file():
        return None
    entry = json.loads(config.read_text(encoding="utf-8")).get("chat_template")
    if isinstance(entry, list):
        entry = {named["name"]: named["template"] for named in entry}.get("default")
    return entry if isinstance(entry, str) else None


def compile_template(source: str) -> jinja2.Template:
    """Compile a chat template in the sandbox, with the helpers that transformers and vLLM give it."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment.from_string(source)


class _GenerationTag(Extension):
    """The `generation` tag marks what an assistant wrote, for training; here its body is just rendered."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _tojson(value: object, ensure_ascii: bool = False, indent: int | None = None, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)
