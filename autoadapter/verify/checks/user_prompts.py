"""The user's own prompts: each must be answered."""

from autoadapter.artifacts import CheckResult, Threshold
from autoadapter.verify.context import CheckContext, concurrently
from autoadapter.verify.engines import Role
from autoadapter.verify.judge import Measured, judged, not_run

SHOWN_CHARACTERS = 600


class UserPromptsCheck:
    """Greedy answers to `--test-cases`, shown in the report."""

    name = "user_prompts"
    title = "Your prompts: each gets an answer"
    needs = (Role.CANDIDATE,)

    def run(self, context: CheckContext) -> CheckResult:
        """Ask each prompt once."""
        cases = context.request.test_cases
        if not cases:
            return not_run(self, "no test cases given")
        client = context.client(Role.CANDIDATE)
        chat = context.request.profile.tokenizer.has_chat_template
        prompts = [[{"role": "user", "content": case}] if chat else case for case in cases]
        answers = concurrently(lambda prompt: client.stream(prompt, context.scale.answer_tokens), prompts)
        empty = sum(not answer.text.strip() or answer.error is not None for answer in answers)
        measured: Measured = {
            "prompts": len(cases),
            "empty_answers": empty,
            "answers": [
                {"prompt": case[:SHOWN_CHARACTERS], "answer": (answer.error or answer.text)[:SHOWN_CHARACTERS]}
                for case, answer in zip(cases, answers, strict=True)
            ],
        }
        threshold = Threshold(
            name="empty_answers", limit=0, direction="==", source="a prompt of yours must be answered"
        )
        return judged(self, measured, [threshold], f"Every one of {len(cases)} was answered.")
