"""Native libraries are in the table of the trust page, and parsers of trees are called in a sandbox only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "webmill"
# Which modules may import a parser of trees, or a function that calls one. `capture` and `parsing` define what a
# sandbox calls: SANDBOX_FUNCTION and FUNCTION.
ALLOWED = {
    "pycld2": {"formats/cld2.py"},
    "webmill.formats.cld2.detect_languages": {"extract/capture.py"},
    "webmill.formats.cld2.detect_languages_of_all": set[str](),
    "trafilatura": {"extract/extractors.py"},
    "resiliparse": {"extract/extractors.py"},
    "lxml": set[str](),
    "fastwarc": set[str](),
    "pypdf": set[str](),  # by its name, in extract/content.py
    "webmill.extract.extractors.extract_text": {"extract/body.py"},
    "webmill.extract.extractors.extract_union": {"extract/body.py"},
    "webmill.extract.content.read_pdf": {"extract/body.py"},
    "webmill.extract.body.read_body": {"extract/capture.py"},
    "webmill.extract.capture.make_document": set[str](),
    "webmill.extract.capture.make_in_child": set[str](),
    "webmill.extract.capture.document_of": {"__init__.py"},
    "selectolax": {"boards/listing.py", "extract/ignored_elements.py"},
    "webmill.extract.ignored_elements.remove_elements": {"extract/body.py"},
    "webmill.boards.listing.read_listing": {"boards/parsing.py"},
    "webmill.boards.listing.read_body": {"boards/parsing.py"},
    "webmill.boards.parsing.read_page": set[str](),
}


def imports(source: str) -> Iterator[str]:
    """Yield everything that a module imports, wherever in it: modules, and names in modules."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def imports_of_modules() -> dict[str, list[str]]:
    return {str(file.relative_to(PACKAGE)): list(imports(file.read_text())) for file in PACKAGE.rglob("*.py")}


def importers(name: str) -> set[str]:
    return {
        module
        for module, names in imports_of_modules().items()
        if any(one == name or one.startswith(f"{name}.") for one in names)
    }


@pytest.mark.parametrize("name", ALLOWED)
def test_parsers_of_trees_are_called_in_the_sandbox_alone(name: str) -> None:
    assert importers(name) <= ALLOWED[name], f"call {name} in a sandbox (docs/design/trust.md#native-parsers)"


def test_what_a_sandbox_calls_is_what_was_checked() -> None:
    named = re.findall(r'\bSandbox\(\s*"?([\w.:]+)', "".join(file.read_text() for file in PACKAGE.rglob("*.py")))
    used = {one for one in named if one not in {"webmill.extract.page:read", "Generic"}}  # an example; the class
    assert used == {"SANDBOX_FUNCTION", "FUNCTION", "webmill.formats.cld2:detect_languages_of_all"}


def test_an_import_in_a_function_is_seen() -> None:
    assert list(imports("def f():\n    import a.b\n    from c.d import e")) == ["a.b", "c.d.e"]


def test_every_native_library_is_in_the_table() -> None:
    page = (ROOT / "docs" / "design" / "trust.md").read_text()
    table = page.partition("## Native parsers")[2].partition("\n## ")[0]
    named = set(re.findall(r"[\w-]+", " ".join(re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE))))
    names = [one.name for one in import_module("docs.dependencies").dependencies()]
    native = {name for name in names if any(".so" in file.suffixes for file in distribution(name).files or ())}
    assert len(native) > 20
    assert native - named == set()
