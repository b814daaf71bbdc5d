"""What a checkpoint cannot state: parser names, known-bad kernels. Each row has a why and a source."""

from autoadapter.families.loader import FamilySetting, families, settings_for
from autoadapter.families.recipe_findings import recipe_findings
from autoadapter.families.recipes import Recipe, RecipeSetting, load_recipes, recipe_for, require_folder

__all__ = [
    "FamilySetting",
    "Recipe",
    "RecipeSetting",
    "families",
    "load_recipes",
    "recipe_findings",
    "recipe_for",
    "require_folder",
    "settings_for",
]
