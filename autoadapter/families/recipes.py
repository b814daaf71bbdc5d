"""vLLM's public recipes as priors: options and parsers that their authors use for one very model, never memory.

A folder of recipes is what the project vllm-project/recipes holds under `models/<org>/<repo>.yaml`. A recipe
speaks of a model only by its Hub id, letter for letter. `vram_minimum_gb`, `tp` and every option that AutoAdapter
plans itself are left out: the recipes' memory is parameters times bytes times 1.2, without a KV cache.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from autoadapter.artifacts import Frozen
from autoadapter.artifacts.serving_plan import SettingValue
from autoadapter.errors import UserError
from autoadapter.families.recipe_args import Parsed, parse_args, parse_env

FEATURES = ("tool_calling", "reasoning")
"""Features whose options are taken; speculative decoding and the like change memory and are offered by name only."""
GENERATIONS = {"hopper": ("9.",), "blackwell": ("10.", "12.")}
"""Keys of `hardware_overrides` → beginnings of the compute capability that they mean."""
MEND = "Mend the file or leave out --recipes."
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class RecipeSetting(Frozen):
    """An option that a recipe sets."""

    flag: str
    value: SettingValue
    key: str
    """Where in the file: `features.reasoning.args`."""


class RecipeEnv(Frozen):
    """An environment variable that a recipe sets."""

    name: str
    value: str
    key: str


class Recipe(Frozen):
    """What one file says of one Hub id."""

    model_id: str
    file: str
    min_vllm_version: str | None
    settings: tuple[RecipeSetting, ...]
    hardware: dict[str, tuple[RecipeSetting, ...]]
    """GPU generation → options on top."""
    env: tuple[RecipeEnv, ...]
    dropped: tuple[str, ...]
    """What vLLM would not understand, one sentence each."""
    ignored: tuple[str, ...]
    """What AutoAdapter decides itself or leaves to the user, one sentence each."""
    offers: tuple[str, ...]
    """Features by name that were not taken."""

    def settings_on(self, compute_capability: str | None) -> tuple[RecipeSetting, ...]:
        """The options on a GPU; a generation's own replace the general ones."""
        matching = [
            name for name, starts in GENERATIONS.items() if compute_capability and compute_capability.startswith(starts)
        ]
        rows = (*self.settings, *(row for name in matching for row in self.hardware.get(name, ())))
        return tuple({row.flag: row for row in rows}.values())


def require_folder(folder: Path) -> None:
    """Raise a UserError unless there is such a folder; whether it holds recipes is another question."""
    if not folder.is_dir():
        lack = "is a file" if folder.exists() else "does not exist"
        message = f"--recipes {folder} {lack}; a folder of recipes is needed."
        raise UserError(message, hint="Name a folder that holds models/<org>/<repo>.yaml, or leave out --recipes.")


def load_recipes(folder: Path, model_id: str | None = None) -> tuple[Recipe, ...]:
    """All recipes below a folder, one for every Hub id that a file speaks of, by id.

    Args:
        folder: of YAML files, in any depth. Files that hold no recipe are passed over.
        model_id: read only the files in which this Hub id stands.

    Raises:
        UserError: no such folder, or a file that is no YAML or not shaped like a recipe.
    """
    require_folder(folder)
    found = [recipe for path in _files(folder) for recipe in _read(path, path.relative_to(folder), model_id)]
    return tuple(sorted(found, key=lambda recipe: (recipe.model_id, recipe.file)))


def recipe_for(folder: Path, model_id: str) -> Recipe | None:
    """The recipe of a Hub id, letter for letter; the first by file name when several speak of it.

    Raises:
        UserError: see `load_recipes`.
    """
    return next((recipe for recipe in load_recipes(folder, model_id) if recipe.model_id == model_id), None)


def _files(folder: Path) -> list[Path]:
    return sorted(path for pattern in ("*.yaml", "*.yml") for path in folder.rglob(pattern) if path.is_file())


def _read(path: Path, label: Path, wanted: str | None) -> list[Recipe]:
    data = path.read_bytes()
    if wanted is not None and wanted.encode() not in data:
        return []
    document = _parse(data, path)
    model = document.get("model") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(model, dict) or not isinstance(model.get("model_id"), str):
        return []
    try:
        return [_recipe(document, variant, str(label)) for variant in _variants(document)]
    except _ShapeError as error:
        raise UserError(f"{path} is not shaped like a recipe: {error}.", hint=MEND) from None


def _parse(data: bytes, path: Path) -> object:
    try:
        loader = _Loader(data)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or type(error).__name__
        raise UserError(f"{path}{where} is not YAML: {problem}.", hint=MEND) from None


class _ShapeError(Exception):
    """A part of a recipe has another kind than it should."""


class _Variant(NamedTuple):
    """A Hub id and what the file says of it beside the base."""

    model_id: str
    name: str
    data: Mapping[str, Any]


def _variants(document: Mapping[str, Any]) -> Iterator[_Variant]:
    """The model itself with the default variant, and every variant that is a repository of its own."""
    base = document["model"]["model_id"]
    variants = _object(document, "variants")
    yield _Variant(base, "default", _object(variants, "default"))
    for name in variants:
        variant = _object(variants, name)
        model_id = variant.get("model_id", base)
        if not isinstance(model_id, str):
            raise _ShapeError(f"variants.{name}.model_id is not text")
        if model_id != base:
            yield _Variant(model_id, str(name), variant)


def _recipe(document: Mapping[str, Any], variant: _Variant, file: str) -> Recipe:
    model, features = _object(document, "model"), _object(document, "features")
    opt_in = document.get("opt_in_features") or []
    taken = [name for name in FEATURES if name in features and name not in opt_in]
    places = [("model.base_args", model.get("base_args"))]
    places += [(f"features.{name}.args", _object(features, name).get("args")) for name in taken]
    places += [(f"variants.{variant.name}.extra_args", variant.data.get("extra_args"))]
    parsed = [parse_args(_texts(args, key), key) for key, args in places]
    overrides = {name: _object(_object(document, "hardware_overrides"), name) for name in GENERATIONS}
    hardware = {
        name: parse_args(_texts(data.get("extra_args"), key), key)
        for name, data in overrides.items()
        if (key := f"hardware_overrides.{name}.extra_args")
    }
    env = [
        parse_env(_object(model, "base_env"), "model.base_env"),
        parse_env(_object(variant.data, "extra_env"), f"variants.{variant.name}.extra_env"),
    ]
    every = (*parsed, *hardware.values(), *env)
    return Recipe(
        model_id=variant.model_id,
        file=file,
        min_vllm_version=_version(variant.data.get("min_vllm_version") or model.get("min_vllm_version")),
        settings=_settings(parsed),
        hardware={name: _settings([part]) for name, part in hardware.items()},
        env=tuple(RecipeEnv(name=flag, value=str(value), key=key) for part in env for flag, value, key in part.taken),
        dropped=tuple(dict.fromkeys(text for part in every for text in part.dropped)),
        ignored=tuple(dict.fromkeys((*(text for part in every for text in part.ignored), *_memory(variant)))),
        offers=tuple(str(name) for name in features if name not in taken),
    )


def _settings(parts: list[Parsed]) -> tuple[RecipeSetting, ...]:
    """Later parts replace earlier ones."""
    rows = [RecipeSetting(flag=flag, value=value, key=key) for part in parts for flag, value, key in part.taken]
    return tuple({row.flag: row for row in rows}.values())


def _memory(variant: _Variant) -> list[str]:
    return [
        f"variants.{variant.name}.{key}: AutoAdapter computes memory and layout itself"
        for key in ("vram_minimum_gb", "tp")
        if key in variant.data
    ]


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key) or {}
    if not isinstance(value, dict):
        raise _ShapeError(f"{key} is a {type(value).__name__}, not a mapping")
    return value


def _texts(value: object, key: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or any(isinstance(item, dict | list) for item in value):
        raise _ShapeError(f"{key} is not a list of texts")
    return [str(item) for item in value]


def _version(value: object) -> str | None:
    return None if value is None else str(value)
