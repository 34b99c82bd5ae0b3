"""The shape of the package: each class has a name of its own, files are short, and no modules import each other in a
circle."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median

import webmill

PACKAGE = Path(webmill.__file__).parent
LONGEST_FILE = 400  # lines


@cache
def modules() -> dict[str, ast.Module]:
    return {name_of(path): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(tree: ast.Module) -> set[str]:
    """Return the modules that are imported when this one is: not those that functions import, nor those for types."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
    return found & modules().keys()


def test_a_class_name_is_defined_once_in_the_package() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_file_is_longer_than_a_person_likes_to_read() -> None:
    lengths = {str(path.relative_to(PACKAGE)): path.read_text().count("\n") for path in PACKAGE.rglob("*.py")}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_functions_fit_in_the_eye() -> None:
    lengths = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert 5 <= median(lengths) <= 8


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name: imported_by(tree) - {name} for name, tree in modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None
