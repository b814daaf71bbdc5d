"""The closed loop for memory: what the plan predicted against what vLLM found at start-up."""

from autoadapter.artifacts import CheckResult, Threshold
from autoadapter.verify.context import CheckContext
from autoadapter.verify.engines import Role
from autoadapter.verify.judge import Measured, judged, not_run

RELATIVE_ERROR = {"cpu": 0.05, "cuda": 0.15}
BOUND_SOURCE = {
    "cpu": "the pool is a setting on a CPU, only rounding to blocks is left",
    "cuda": "published predictors of the KV pool err by 8 % on average; the activation peak is the uncertain part",
}


class MemoryCheck:
    """KV tokens: predicted and observed."""

    name = "memory"
    title = "Memory: the KV cache is as large as the plan said"
    needs = (Role.CANDIDATE,)

    def run(self, context: CheckContext) -> CheckResult:
        """Compare the plan with the candidate's start-up log."""
        client = context.client(Role.CANDIDATE)
        run = context.engines.run_of(Role.CANDIDATE)
        plan = context.request.plan
        observed = run.kv_cache_tokens if run else None
        if observed is None:
            return not_run(self, "vLLM's start-up log does not say how many tokens the KV cache holds")
        predicted = plan.memory.kv_tokens
        one_request = client.max_model_len()
        kind = context.request.engine.platform
        thresholds = [
            Threshold(
                name="requests_of_full_length",
                limit=1.0,
                direction=">=",
                source="one request of max-model-len must fit",
            ),
            Threshold(name="relative_error", limit=RELATIVE_ERROR[kind], direction="<=", source=BOUND_SOURCE[kind]),
        ]
        measured: Measured = {
            "kv_tokens_predicted": predicted,
            "kv_tokens_observed": observed,
            "observed_over_predicted": observed / predicted if predicted else None,
            "relative_error": abs(observed - predicted) / observed,
            "max_model_len": one_request,
            "requests_of_full_length": observed / one_request,
        }
        summary = (
            f"{observed} tokens of KV cache, predicted {predicted} "
            f"({observed / predicted - 1:+.1%}); {observed / one_request:.1f} requests of {one_request} tokens fit."
            if predicted
            else ""
        )
        return judged(self, measured, thresholds, summary)
