"""What a user is told of a recipe that was looked for."""

from collections.abc import Iterator
from pathlib import Path

from autoadapter.artifacts import Finding, Level
from autoadapter.engine.versions import release
from autoadapter.errors import UserError
from autoadapter.families.recipes import Recipe


def recipe_findings(recipe: Recipe | None, vllm_version: str, folder: Path | None = None) -> tuple[Finding, ...]:
    """The recipe's own minimum, what was left out of it and why, or that there is none for this model."""
    if recipe is None:
        message = "No recipe in this folder speaks of this model; recipes are matched by Hub id alone."
        return (Finding(code="recipe.none", level=Level.INFO, message=message, source=str(folder or "--recipes")),)
    return tuple(_findings(recipe, vllm_version))


def _findings(recipe: Recipe, version: str) -> Iterator[Finding]:
    minimum = recipe.min_vllm_version
    if minimum is not None and _is_older(version, minimum):
        message = f"The recipe of {recipe.model_id} asks for vLLM {minimum} or newer; the target is {version}."
        hint = f"autoadapter analyze MODEL --vllm-version {minimum}"
        yield _finding("min-version", Level.WARNING, message, f"{recipe.file}: min_vllm_version", hint)
    if recipe.dropped:
        message = f"Dropped from the recipe, because vLLM would refuse it: {'; '.join(recipe.dropped)}."
        yield _finding(
            "dropped", Level.WARNING, message, recipe.file, "Say it yourself with --engine-arg if you need it."
        )
    if recipe.ignored:
        message = f"Not taken from the recipe: {'; '.join(recipe.ignored)}."
        yield _finding("ignored", Level.INFO, message, recipe.file)
    if recipe.offers:
        message = f"The recipe offers more, which was not switched on: {', '.join(recipe.offers)}."
        yield _finding("offers", Level.INFO, message, recipe.file)


def _is_older(version: str, minimum: str) -> bool:
    try:
        return release(version) < release(minimum)
    except UserError:
        return False


def _finding(topic: str, level: Level, message: str, source: str, hint: str | None = None) -> Finding:
    return Finding(code=f"recipe.{topic}", level=level, message=message, hint=hint, source=source)
