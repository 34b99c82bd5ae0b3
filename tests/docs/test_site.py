"""The site has all pages, and its links lead where those of the pages in the repository lead."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
BUILDER = ROOT / ".venv-docs" / "bin" / "python"


@pytest.fixture(scope="module")
def site() -> ModuleType:
    """docs/site.py. It is no module that others import, and would hide Python's own of that name."""
    spec = importlib.util.spec_from_file_location("webmill_docs_site", ROOT / "docs" / "site.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def leaves(tree: object) -> list[str]:
    if isinstance(tree, str):
        return [tree]
    assert isinstance(tree, list | dict)
    branches = tree.values() if isinstance(tree, dict) else tree
    return [leaf for branch in branches for leaf in leaves(branch)]


def test_every_page_is_in_the_navigation_once(site: ModuleType) -> None:
    shown = leaves(site.tree())
    assert sorted(shown) == sorted({site.name_of(page) for page in (ROOT / "docs").rglob("*.md")})
    assert shown[:2] == ["index.md", "tutorial.md"]


def test_what_the_builder_reads_is_whole(site: ModuleType, tmp_path: Path) -> None:
    site.prepare(tmp_path)
    settings = tomllib.loads((tmp_path / "zensical.toml").read_text())["project"]
    sections = [next(iter(entry)) for entry in settings["nav"] if isinstance(entry, dict)]
    assert sections == ["Tutorial", "How-to", "Reference", "Design", "Decisions"]
    assert all((tmp_path / "docs" / name).is_file() for name in leaves(settings["nav"]))


def test_links_out_of_the_docs_lead_to_the_repository(site: ModuleType) -> None:
    page = site.for_site(ROOT / "docs" / "reference" / "crawl.md")
    assert (
        f"[`crawl/politeness/retries.py`]({site.REPOSITORY}/blob/main/src/webmill/crawl/politeness/retries.py)" in page
    )
    assert "(archive.md)" in page
    assert "(../tutorial.md)" in site.for_site(ROOT / "docs" / "reference" / "test-web.md")
    assert "(reference/indexing.md)" in site.for_site(ROOT / "docs" / "README.md")


def test_links_that_lead_nowhere_are_found(site: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    links = ["a/", "a/#there", "a/#gone", "b/", "https://example.org/", "#here"]
    body = "".join(f'<a href="{link}">x</a>' for link in links)
    (tmp_path / "index.html").write_text(f'<h1 id="here"></h1>{body}<script src="https://example.org/x.js"></script>')
    (tmp_path / "a" / "index.html").write_text('<h2 id="there"></h2><a href="..">up</a>')
    assert sorted(site.flaws(tmp_path)) == [
        "index.html loads https://example.org/x.js",
        "index.html: a/#gone has no such heading",
        "index.html: b/ leads nowhere",
    ]


def test_language_models_find_every_page(site: ModuleType, tmp_path: Path) -> None:
    site.prepare(tmp_path)
    target = tmp_path / "site"
    target.mkdir()
    site.write_llms(tmp_path / "docs", target)
    text = (target / "llms.txt").read_text()
    assert text.startswith("# webmill\n\n> Your own Common Crawl")
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", text, re.MULTILINE)
    assert sorted(listed) == sorted(leaves(site.tree()))
    assert all((target / page).is_file() for page in listed)
    assert len(re.findall(r"^- .*: \S", text, re.MULTILINE)) > 0.8 * len(listed)


@pytest.mark.skipif(not BUILDER.exists(), reason="`make site` makes the environment that builds it")
def test_it_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [BUILDER, ROOT / "docs" / "site.py", tmp_path / "site"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "webmill" in (tmp_path / "site" / "tutorial" / "index.html").read_text()
