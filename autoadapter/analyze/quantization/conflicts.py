"""Where quantization configs disagree with each other, with the tensors, or with what vLLM reads."""

from autoadapter.analyze.config import Config
from autoadapter.analyze.quantization import stated
from autoadapter.analyze.quantization.exclusions import excluded_but_quantized, unread_patterns
from autoadapter.analyze.reading import Evidence
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import QuantizationTraits

SHOWN = 3
PACKED = r"\.(qweight|weight_packed|weight_scale|weight_scale_inv|SCB)$"
SCALES = r"(scales?|scale_inv|_scales|absmax|qzeros|weight_scale_2|SCB)$"
ONLINE = ("bitsandbytes", "torchao", "quark", "experts_int8")
"""Methods whose scales have other names, or whose weights may be quantized while they are loaded."""
NAME_A_PRODUCER = 'Add "producer": {"name": "modelopt"} to the file, or take config.json from where the weights are.'


def unexplained(evidence: Evidence) -> tuple[Finding, ...]:
    """Packed weights without a config: vLLM would read them as plain numbers."""
    packed = evidence.checkpoint.find(PACKED)
    if packed is None:
        return ()
    message = f"{packed.name} belongs to a quantized checkpoint, and no quantization config says how to read it."
    hint = "Take config.json (and hf_quant_config.json) from where the weights came from."
    source = f"tensor {packed.name}"
    return (Finding(code="quantization.unexplained", level=Level.BLOCKER, message=message, hint=hint, source=source),)


def quantization_findings(evidence: Evidence, config: Config, traits: QuantizationTraits) -> tuple[Finding, ...]:
    """Everything worth telling.

    Args:
        evidence: the model.
        config: the quantization config that vLLM reads.
        traits: what it says.
    """
    notes = [*_against_vllm(evidence, config), *_two_configs(evidence), *_two_files(evidence, config)]
    return (*notes, *_against_tensors(evidence, traits))


def _against_vllm(evidence: Evidence, config: Config) -> list[Finding]:
    """What vLLM would refuse in this config, or not see at all."""
    notes, name = [], stated.algorithm(config)
    from_file = config.where == stated.HF_QUANT_CONFIG
    named = config.text("quant_method") is not None or config.text("producer.name") == "modelopt"
    if not named:
        message = f"{config.where} names neither quant_method nor producer, and vLLM takes the method from there."
        message += " It would read the weights as plain numbers."
        notes.append(_told("quantization.unread", Level.BLOCKER, message, config.where, NAME_A_PRODUCER))
    unserved = name and name not in stated.MODELOPT_SERVED and stated.method(config).startswith("modelopt")
    only_here = from_file and config.text("quant_method") is None and named and name not in stated.FROM_FILE
    if unserved or only_here:
        known = stated.FROM_FILE if only_here else stated.MODELOPT_SERVED
        message = f"{config.where} says quant_algo {name or 'nothing'}, and vLLM reads {', '.join(known)} there."
        hint = "Put quantization_config with quant_method and quant_algo into config.json." if only_here else None
        notes.append(_told("quantization.algorithm", Level.BLOCKER, message, config.where, hint))
    if name == stated.MIXED and not _lists_layers(config) and not _lists_layers(stated.modelopt_file(evidence)):
        message = f"{config.where} says {stated.MIXED} and lists no quantized_layers: vLLM refuses that."
        notes.append(_told("quantization.no-layers", Level.BLOCKER, message, config.where))
    return notes


def _lists_layers(config: Config | None) -> bool:
    return config is not None and bool(
        config.objects("quantization.quantized_layers") or config.objects("quantized_layers")
    )


def _two_configs(evidence: Evidence) -> list[Finding]:
    """Several objects of config.json that differ: vLLM takes the wrapper's first, and quantization_config first."""
    configs = [evidence.root] + ([evidence.language] if evidence.language is not evidence.root else [])
    children = [inner for config in configs for key in stated.CONFIG_KEYS if (inner := config.child(key)) is not None]
    if len(children) < 2 or all(inner.data == children[0].data for inner in children):
        return []
    first, other = children[0], next(inner for inner in children if inner.data != children[0].data)
    message = f"{first.where} and {other.where} differ; vLLM takes {first.where}."
    return [_told("quantization.two-configs", Level.WARNING, message, other.where, "Remove the one that is wrong.")]


def _two_files(evidence: Evidence, config: Config) -> list[Finding]:
    """config.json against hf_quant_config.json; vLLM reads the former."""
    other = stated.modelopt_file(evidence)
    if other is None or config.where == other.where:
        return []
    notes = []
    pairs = (
        ("quant_algo", stated.algorithm(config), stated.algorithm(other)),
        ("the KV cache", _kv(config), _kv(other)),
    )
    for what, here, there in pairs:
        if here != there and (here or what != "quant_algo"):
            notes.append(
                f"{what} is {here or 'not stated'} in {config.where} and {there or 'not stated'} in {other.where}"
            )
    mine, others = set(stated.ignored(config)), set(stated.ignored(other))
    if mine != others:
        notes.append(f"the excluded modules differ ({_difference(config, mine - others, other, others - mine)})")
    hint = "Keep the pair that the quantizer wrote together."
    whole = (f"{note[0].upper()}{note[1:]}; vLLM reads {config.where}." for note in notes)
    return [_told("quantization.files-differ", Level.WARNING, message, other.where, hint) for message in whole]


def _kv(config: Config) -> str:
    word = stated.kv_cache_word(config) or ""
    return {"8-BIT FLOAT": "FP8", "4-BIT FLOAT": "NVFP4"}.get(word.upper(), word.upper())


def _difference(config: Config, here: set[str], other: Config, there: set[str]) -> str:
    parts = [
        f"{_list(names)} only in {where}" for names, where in ((here, config.where), (there, other.where)) if names
    ]
    return "; ".join(parts)


def _list(names: set[str]) -> str:
    few = sorted(names)[:SHOWN]
    return ", ".join(few) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _against_tensors(evidence: Evidence, traits: QuantizationTraits) -> list[Finding]:
    if not evidence.checkpoint.tensors:
        return []
    notes = []
    if evidence.checkpoint.find(SCALES) is None and traits.method not in ONLINE:
        message = (
            f"The config says {traits.method}, and the checkpoint stores no scales: the weights are not quantized."
        )
        notes.append(_told("quantization.not-there", Level.BLOCKER, message, traits.source))
    unread = unread_patterns(traits.ignored)
    if unread:
        message = (
            f"{len(unread)} of the patterns in {traits.source} that exclude modules are regular expressions beyond "
        )
        message += f"the plain ones that are read here ({unread[0][:60]!r}); they were not compared with the tensors."
        notes.append(_told("quantization.patterns-unread", Level.INFO, message, traits.source))
    stored = excluded_but_quantized(evidence.checkpoint, traits.ignored)
    if stored:
        more = f" and {len(stored) - SHOWN} more are stored" if len(stored) > SHOWN else " is stored"
        more = " are stored" if 1 < len(stored) <= SHOWN else more
        message = f"{traits.source} excludes modules from quantization whose scales are there: "
        message += f"{', '.join(stored[:SHOWN])}{more}. vLLM has no parameter for them and stops loading."
        hint = "Remove the modules from the list of excluded ones, or take the checkpoint that belongs to it."
        notes.append(_told("quantization.excluded", Level.BLOCKER, message, f"tensor {stored[0]}", hint))
    return notes


def _told(code: str, level: Level, message: str, source: str, hint: str | None = None) -> Finding:
    return Finding(code=code, level=level, message=message, hint=hint, source=source)
