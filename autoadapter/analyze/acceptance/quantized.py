"""Quantized checkpoints that vLLM's configuration classes refuse, and groups that fit no layer."""

from collections.abc import Iterator

from pydantic import JsonValue

from autoadapter.analyze import kv_cache
from autoadapter.analyze.acceptance.compressed import compressed_findings
from autoadapter.analyze.acceptance.rows import ANY, Limit, Scalar, limits
from autoadapter.analyze.axes import mlp, moe
from autoadapter.analyze.config import Config
from autoadapter.analyze.quantization import stated
from autoadapter.analyze.reading import Evidence
from autoadapter.artifacts import Finding, Level
from autoadapter.engine.versions import within

IN_GROUPS = {"gptq", "auto_gptq", "gptq_marlin", "awq", "auto_awq", "awq_marlin", "compressed-tensors"}
"""Methods whose groups run along a layer's inputs: widths must be whole numbers of groups."""
HINT = "Take a checkpoint in a format that vLLM serves, or let `autoadapter optimize` quantize the unquantized one."


def quantized_findings(evidence: Evidence, vllm_version: str) -> Iterator[Finding]:
    """What vLLM refuses in the quantization config that it reads.

    Args:
        evidence: the model.
        vllm_version: of the engine; rows may speak of some releases alone.
    """
    config = stated.config_of_record(evidence)
    if config is None:
        return
    method = stated.method(config)
    rows = [row for row in limits() if method in row.methods and within(vllm_version, row.since, row.until)]
    missing = [finding for row in rows if not row.served for finding in _missing(config, row, method)]
    yield from missing or (finding for row in rows if row.served for finding in _unserved(config, row, method))
    if method == "compressed-tensors":
        yield from compressed_findings(config, vllm_version)
    if method in IN_GROUPS:
        yield from _groups(evidence.language, config)


def _missing(config: Config, row: Limit, method: str) -> Iterator[Finding]:
    absent = [keys[0] for keys in row.keys if not any(_is_there(config, key) for key in keys)]
    if absent:
        message = f"{config.where} says {method} and lacks {' and '.join(absent)}; vLLM refuses it: {row.says}"
        yield _refused(f"{message.rstrip('.')} ({row.source}).", config.where)


def _is_there(config: Config, key: str) -> bool:
    """Whether the key is there, whatever it holds: more is not asked."""
    return key in config.data or config.get(key) is not None


def _unserved(config: Config, row: Limit, method: str) -> Iterator[Finding]:
    values = tuple(_scalar(config.get(config.found(*keys) or "")) for keys in row.keys)
    if row.takes(values):
        return
    said = _said(row, values)
    known = " or ".join(dict.fromkeys(_said(row, served) for served in row.served))
    message = f"{config.where} says {method} with {said}, and vLLM serves {known}: {row.says} ({row.source})."
    yield _refused(message, config.source(*row.keys[0]))


def _said(row: Limit, values: tuple[Scalar, ...]) -> str:
    pairs = ((keys[-1], value) for keys, value in zip(row.keys, values, strict=True) if value != ANY)
    return " and ".join(f"{key} {_word(value)}" for key, value in pairs)


def _word(value: Scalar) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)[:40]


def _scalar(value: JsonValue) -> Scalar:
    """Lists and objects stand for something that is there."""
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)[:40] if isinstance(value, float) else "given"


def _groups(language: Config, config: Config) -> Iterator[Finding]:
    """A width that is no whole number of groups leaves no layout, on one device as on many."""
    group = stated.weights(config, {}).group_size
    if group is None:
        return
    for keys in (kv_cache.HIDDEN, mlp.WIDTH, moe.WIDTH):
        key = language.found(*keys)
        value = language.get(key or "")
        if key is None or not isinstance(value, int) or value <= 0 or value % group == 0:
            continue
        message = (
            f"{config.where} quantizes in groups of {group}, and {language.source(key)} is {value}, which is no whole "
        )
        message += "number of groups: vLLM has no layout for such a layer."
        yield _refused(message, config.where)
        return


def _refused(message: str, source: str) -> Finding:
    return Finding(code="quantization.refused", level=Level.BLOCKER, message=message, hint=HINT, source=source)
