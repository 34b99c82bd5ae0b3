"""The documentation says what the code says, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from webmill.cli.context import REJECTED
from webmill.cli.main import FAILED, INTERRUPTED, USAGE

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?:|mailto:)([^)\s]+)\)")


def test_pages_made_from_the_code_are_as_new_as_the_code() -> None:
    command = [sys.executable, ROOT / "docs" / "generate.py", "--check"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_every_room_is_told_in_the_house() -> None:
    page = (ROOT / "docs" / "design" / "house.md").read_text()
    order = page.partition("<!-- layers")[2].partition("<!-- /layers")[0]
    rooms = re.findall(r"\b[a-z]+\b", order.partition("-->")[2])
    assert len(rooms) > 15
    assert [room for room in rooms if f"`{room}/`" not in page and f"`{room}.py`" not in page] == []


def test_exit_codes_are_those_of_the_program() -> None:
    page = (ROOT / "docs" / "reference" / "command.md").read_text()
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)] == [
        0,
        FAILED,
        USAGE,
        REJECTED,
        INTERRUPTED,
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in LINK.findall(text):
        target, _, anchor = link.partition("#")
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), f"{page}: {link}"
        if anchor and place.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", place.read_text(), re.MULTILINE)
            assert anchor in {slug(title) for title in titles}, f"{page}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_are_there(page: Path) -> None:
    named = re.findall(
        r"`((?:tests|src|deploy|examples|benchmarks|docs|requirements)/[\w./-]*)(?:::\w+)?`", page.read_text()
    )
    lost = [name for name in named if not (ROOT / name).exists()]
    assert not lost


def slug(title: str) -> str:
    """As GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", title.lower().strip()).replace(" ", "-")


def test_every_page_can_be_found() -> None:
    """From the front page of the docs, by links."""
    seen, open_ = set[Path](), [ROOT / "docs" / "README.md"]
    while open_:
        page = open_.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        open_ += [(page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(page.read_text())]
    lost = set((ROOT / "docs").rglob("*.md")) - seen
    assert not lost, sorted(str(page.relative_to(ROOT)) for page in lost)
