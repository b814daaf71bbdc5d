"""What the checkpoint says of its own quantization, in vLLM's words."""

import re
from collections import Counter

from autoadapter.analyze.quantization import stated
from autoadapter.analyze.quantization.conflicts import quantization_findings, unexplained
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.artifacts.model_profile import QuantizationTraits

PLAIN = {"F64", "F32", "F16", "BF16"}


def read_quantization(evidence: Evidence) -> Reading:
    """Quantization traits; None for a checkpoint of plain floats."""
    if evidence.checkpoint.format == "gguf":
        return _ggml(evidence)
    found = stated.config_of_record(evidence)
    if found is None:
        where = evidence.root.source(*stated.CONFIG_KEYS)
        return Reading("quantization", None, {"": where}, unexplained(evidence))
    counted = stated.algorithms(found)
    method, weights = stated.method(found), stated.weights(found, counted)
    traits = QuantizationTraits(
        method=method,
        bits=weights.bits,
        group_size=weights.group_size,
        block_size=weights.block_size,
        symmetric=weights.symmetric,
        ignored=stated.ignored(found),
        kv_cache_dtype=stated.kv_cache_dtype(found, method),
        algorithms=counted,
        source=found.where,
    )
    return Reading("quantization", traits, {"method": found.where}, quantization_findings(evidence, found, traits))


def _ggml(evidence: Evidence) -> Reading:
    """GGML types, and the bits of the one that holds most weights (`Q4_1` → 4)."""
    where, elements = "GGML tensor types", Counter[str]()
    for info in evidence.checkpoint.tensors.values():
        elements[info.dtype] += info.elements
    kinds = {kind: count for kind, count in elements.items() if kind not in PLAIN}
    if not kinds:
        return Reading("quantization", None, {"": where})
    digit = re.search(r"\d", max(kinds, key=lambda kind: kinds[kind]))
    source = f"{where}: {', '.join(sorted(kinds))}"
    traits = QuantizationTraits(method="gguf", bits=int(digit[0]) if digit else None, source=source)
    return Reading("quantization", traits, {"method": where, "bits": where})
