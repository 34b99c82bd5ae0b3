"""docs/reference/faults.md names every fault once, and tests that there are."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "faults.md"
TESTS = sorted((ROOT / "tests").rglob("*.py"))
TEST = re.compile(r"\[`(tests/[\w/]+\.py)::(\w+)`\]\(\.\./\.\./(tests/[\w/]+\.py)\)")
ID = r"(?:R-)?[A-Z]\d\d"  # R-: of the second list, some of whose ids are those of other rows
IN_A_NAME = re.compile(r"(?<![a-zA-Z0-9])[fnrpwiqtcsvhod]\d\d(?![a-zA-Z0-9])")
GAPS = "## Not shown by a test"
SEVERITIES = {"C", "H", "M", "L"}


@cache
def rows() -> list[list[str]]:
    """The cells of each row above the list of gaps, without the heads of tables."""
    lines = PAGE.read_text().partition(GAPS)[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
    return [row for row in cells if row[0] != "id"]


@cache
def names_in(path: str) -> set[str]:
    """Of functions, classes, and what is assigned at the top: a state machine has its test so."""
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    targets = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    return names | {target.id for target in targets if isinstance(target, ast.Name)}


def mentioned(source: str) -> Iterator[str]:
    """Ids in comments, in text, and in names of tests (`…_c04`)."""
    if not re.search(ID, source) and not IN_A_NAME.search(source):
        return  # most files; to read all of them by words would take seconds
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield from re.findall(rf"\b{ID}\b", token.string)
            for first, last in re.findall(r"\b([A-Z]\d\d) to ([A-Z]\d\d)\b", token.string):
                yield from (f"{first[0]}{number:02d}" for number in range(int(first[1:]), int(last[1:]) + 1))
        elif token.type == tokenize.NAME and token.string.startswith("test_"):
            yield from (found.upper() for found in IN_A_NAME.findall(token.string))


def test_every_fault_has_one_row() -> None:
    ids = Counter(row[0] for row in rows())
    assert [id_ for id_, count in ids.items() if count > 1] == []
    assert len(ids) > 190


def test_every_row_has_a_severity_and_a_test() -> None:
    for row in rows():
        assert row[-1] in SEVERITIES, row[0]
        assert TEST.findall(row[-2]), row[0]


def test_every_test_that_is_named_exists() -> None:
    named = TEST.findall(PAGE.read_text())
    assert PAGE.read_text().count("::test_") + PAGE.read_text().count("::Test") == len(named)
    missing = [f"{path}::{name}" for path, name, _ in named if not (ROOT / path).exists() or name not in names_in(path)]
    assert missing == []
    assert [path for path, _, link in named if path != link] == []


def test_every_fault_that_tests_speak_of_has_a_row() -> None:
    known = {row[0] for row in rows()}
    unknown = {(id_, path.name) for path in TESTS for id_ in mentioned(path.read_text()) if id_ not in known}
    assert unknown == set()


def test_every_gap_is_of_a_row() -> None:
    known = {row[0] for row in rows()}
    lines = [line for line in PAGE.read_text().partition(GAPS)[2].splitlines() if line.startswith("| ")][1:]
    assert lines
    assert {id_ for line in lines for id_ in line.strip("| ").split(" | ")[0].split(", ")} <= known


@pytest.mark.parametrize(
    ("source", "ids"),
    [
        ('"""Memory (N10, N08)."""', ["N10", "N08"]),
        ('"""The table (N07 to N09)."""', ["N07", "N09", "N07", "N08", "N09"]),
        ("# after a failed sync: W03", ["W03"]),
        ("def test_a_stopped_publisher_is_waited_for_c04(): ...", ["C04"]),
        ("def test_i13_ranges(): ...", ["I13"]),
        ("def test_200_clients(): A10 = 1", []),
    ],
)
def test_ids_are_found_where_tests_speak_of_them(source: str, ids: list[str]) -> None:
    assert list(mentioned(source)) == ids
