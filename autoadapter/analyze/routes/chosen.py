"""Which of several architectures vLLM takes, and under which name its registry has it.

Source: vLLM 0.32 `model_executor/models/registry.py:resolve_model_cls, _normalize_arch` and
`config/model.py:_get_default_runner_type`, tried there with lists of two.
"""

from autoadapter.analyze.reading import Evidence
from autoadapter.engine.registry import Registry, transformers_classes

GENERATING = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")
POOLING = (
    "ForTextEncoding", "EmbeddingModel", "ForSequenceClassification", "ForTokenClassification",
    "ForAudioClassification", "ForImageClassification", "ForVideoClassification", "ClassificationModel",
    "ForRewardModeling", "RewardModel", "Model",
)  # fmt: skip
"""Endings of names in vLLM's order; the runner of the first that fits is taken."""


def chosen_architecture(evidence: Evidence, registry: Registry, *, forced: bool = False) -> str:
    """The name that vLLM goes by; empty where config.json has none.

    Args:
        evidence: the model.
        registry: of the engine.
        forced: the Transformers modeling backend is forced, which takes the first name whatever it is.
    """
    names = evidence.root.texts("architectures") or ()
    if not names or forced:
        return evidence.architecture
    deciding = next(
        (name for name in names if _is_known(name, registry) or name.endswith(GENERATING + POOLING)), names[0]
    )
    if _pools(deciding, registry):
        return deciding
    taken = next((name for name in names if name in registry.served or name in registry.speculative), None)
    return taken or _normalized(evidence, names, registry) or names[0]


def _is_known(name: str, registry: Registry) -> bool:
    return name in registry.served | registry.pooling | registry.speculative


def _pools(name: str, registry: Registry) -> bool:
    if name in registry.served or name in registry.speculative:
        return False
    return name in registry.pooling or (name.endswith(POOLING) and not name.endswith(GENERATING))


def _normalized(evidence: Evidence, names: tuple[str, ...], registry: Registry) -> str | None:
    """A served name with another ending, where transformers has no class of the first name to fall back to."""
    if names[0] in transformers_classes() or evidence.root.get("auto_map"):
        return None
    for name in names:
        ending = next((end for end in GENERATING if name.endswith(end)), None)
        others = (name.removesuffix(ending) + end for end in GENERATING) if ending else ()
        found = next((other for other in others if other in registry.served), None)
        if found:
            return found
    return None
