"""Every test of a reference says what it checks, and every how-to shows it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.references.claim import claims, differs, table, unclaimed, works
from tests.references.documents import DOCUMENTS

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_every_test_of_a_document_says_what_it_checks(name: str) -> None:
    module = import_module(f"tests.references.{name}")
    assert unclaimed(module) == []
    assert [*claims(module)]


def test_every_document_has_its_how_to() -> None:
    files = {file.stem for file in HERE.glob("test_0*.py")}
    assert files == set(DOCUMENTS)
    for page in DOCUMENTS.values():
        text = (HERE.parents[1] / "docs" / "how-to" / page).read_text()
        assert "<!-- claims: made by docs/generate.py -->" in text


def test_a_table_shows_what_differs_before_what_works() -> None:
    @works("a | b")
    @differs("c", now="d | e", why="f")
    def test_one() -> None: ...

    module = type(pytest)("module")
    vars(module)["test_one"] = test_one
    text = table(module)
    assert text.index("| c | d \\| e | f |") < text.index("* a | b")


def test_a_test_without_a_claim_is_seen() -> None:
    module = type(pytest)("module")
    vars(module)["test_one"] = lambda: None
    assert unclaimed(module) == ["test_one"]
