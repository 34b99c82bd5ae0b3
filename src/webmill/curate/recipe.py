"""A recipe: the steps from documents to a corpus, in order, each with its thresholds. TOML, or a list in Python.

    name = "news"

    [[step]]
    use = "gopher-quality"
    min_words = 80

    [[step]]
    use = "minhash"

Files that a step names (blocklists, models) are found from the recipe's folder.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from webmill.curate.characters import UNICODE
from webmill.curate.registry import STEPS, AnyStep
from webmill.curate.steps import CurateStep, digest_of
from webmill.errors import Misconfigured, NotFound
from webmill.formats.cld2 import ISO_639_3

_LANGUAGE = re.compile("[a-z]{3}")
WORD_RULE = 1  # the version of words, lines and sentences: attributes of another one are made anew


class CurateRecipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The steps of a recipe. `from_recipe` names one whose steps come first."""

    name: str
    about: str = ""
    from_recipe: str = msgspec.field(default="", name="from")
    steps: tuple[AnyStep, ...] = msgspec.field(default=(), name="step")

    def __post_init__(self) -> None:
        titles = [step.title for step in self.steps]
        if twice := [title for title in titles if titles.count(title) > 1]:
            raise Misconfigured(f"two steps are called {twice[0]!r}: give each a name of its own, name = …")
        for step in self.steps:
            for code in step.named_languages():
                _check_language(step, code)

    def texts_seen_by(self, number: int) -> list[CurateStep]:
        """Return the steps that have rewritten the text before the step of this number sees it."""
        return [step for step in self.steps[:number] if step.rewrites]

    def keys(self) -> list[str]:
        """Return the names of what the steps measure."""
        return [self.key_of(number) for number in range(len(self.steps))]

    def key_of(self, number: int) -> str:
        """Return the name of what a step measures: it is the same as long as the same is measured of the same texts."""
        step = self.steps[number]
        before = [one.parameters() for one in self.texts_seen_by(number)]
        return f"{step.use}-{digest_of([UNICODE, WORD_RULE, before, step.parameters()])}"


def shipped_recipes() -> list[str]:
    """Return the names of the recipes that come with webmill."""
    folder = resources.files("webmill.curate") / "recipes"
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def load_recipe(named: str, *, folder: Path = Path(), below: tuple[str, ...] = ()) -> CurateRecipe:
    """Return the recipe of a file, or one that comes with webmill by its name. `below` are those made from it."""
    if named in shipped_recipes():
        file = resources.files("webmill.curate") / "recipes" / f"{named}.toml"
        return decode_recipe(file.read_text(encoding="utf-8"), source=named, beside=Path())
    path = (folder / named).resolve()
    if str(path) in below:
        raise Misconfigured(f"{path}: a recipe cannot be made from itself")
    try:
        text = path.read_text(encoding="utf-8")
        return decode_recipe(text, source=str(path), beside=path.parent, below=(*below, str(path)))
    except FileNotFoundError:
        known = ", ".join(shipped_recipes())
        raise NotFound(f"no recipe {named}: name a TOML file, or one of {known}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: {error}") from None


def decode_recipe(text: str, *, source: str, beside: Path, below: tuple[str, ...] = ()) -> CurateRecipe:
    """Return the recipe of a TOML text. `Misconfigured` names the step and what is wrong with it."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"{source} is not valid TOML: {error}") from None
    return make_recipe(raw, source=source, beside=beside, below=below)


def make_recipe(
    raw: Mapping[str, Any], *, source: str = "the recipe", beside: Path = Path(), below: tuple[str, ...] = ()
) -> CurateRecipe:
    """Return a recipe from a table, with the steps of the recipe that it is made from before its own."""
    try:
        recipe = msgspec.convert({"name": Path(source).stem, **raw}, CurateRecipe)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"{source}: {_explained(str(error))}") from None
    steps = tuple(step.with_files(beside) for step in recipe.steps)
    if recipe.from_recipe:
        steps = (*load_recipe(recipe.from_recipe, folder=beside, below=below).steps, *steps)
    return msgspec.structs.replace(recipe, steps=steps, from_recipe="")


def recipe_of_steps(steps: Iterable[CurateStep | Mapping[str, Any]], *, name: str = "python") -> CurateRecipe:
    """Return the recipe of a list of steps: structs, or tables as in TOML."""
    tables = [step if isinstance(step, Mapping) else msgspec.to_builtins(step) for step in steps]
    return make_recipe({"name": name, "step": tables}, source=name)


def _check_language(step: CurateStep, code: str) -> None:
    """Raise `Misconfigured` for what no document can have: a code of two letters would remove all without a word."""
    if not _LANGUAGE.fullmatch(code):
        known = ISO_639_3.get(code)
        hint = f": write {known!r}" if known else ", such as 'eng'"
        raise Misconfigured(f"step {step.title!r}: {code!r} is no code of ISO 639-3{hint}")


def _explained(message: str) -> str:
    """Return what is wrong, with the names of the steps where there is none of that name."""
    if "Invalid value" in message and ".use" in message:
        return f"{message}: there are {', '.join(sorted(STEPS))}"
    return message
