"""The stages from Python: what the commands do, without a command line, a print or an exit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import webmill
from tests.serve.sample_collection import Visit, archive, page
from webmill.errors import Misconfigured, NotFound, WrongUse
from webmill.pipeline.progress import StepProgress
from webmill.testing import TestWeb

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
PAGES = [Visit(f"https://a.example/{n}", f"202401010000{n:02d}", page(f"Page {n}", f"Ferry {n}")) for n in range(3)]


@pytest.fixture
def web() -> Iterator[TestWeb]:
    with TestWeb(hosts=1, pages_per_host=6) as web:
        yield web


def variables(web: TestWeb) -> dict[str, str]:
    """The same, for a program that does not know of it."""
    fixed = ",".join(f"{name}={address}:{port}" for name, (address, port) in web.resolve.items())
    crawl = {"ALLOW_PRIVATE": "true", "RESOLVE": fixed, "DELAY": "0s", "ADDRESS_DELAY": "0s", "PROCESSES": "1"}
    return {f"WEBMILL_CRAWL_{name}": value for name, value in crawl.items()}


def reaching(web: TestWeb) -> dict[str, object]:
    """Settings that lead the crawl to the test web instead of the Internet."""
    return {
        "contact": "crawler@mill.example",
        "allow_private": True,
        "resolve": web.resolve,
        "delay": 0,
        "address_delay": "0s",
        "processes": 1,
        "languages": False,
    }


def test_a_collection_is_made_from_python_alone(
    web: TestWeb, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reported: list[StepProgress] = []
    crawled = webmill.crawl(tmp_path / "c", [web.home], progress=reported.append, max_pages=4, **reaching(web))
    assert (crawled.end, crawled.total.pages, crawled.rejected) == ("pages", 4, [])
    assert reported[-1] == StepProgress("Crawling", 4, 4, "pages")

    indexed = webmill.index(tmp_path / "c", progress=reported.append, parquet=False)
    assert indexed.captures >= 4
    assert reported[-1].title != "Crawling"
    assert webmill.extract(tmp_path / "c").documents >= 1

    published = webmill.publish(tmp_path / "c", facets=["domain"])
    assert published.published.is_new
    assert published.fed is None, "there is no index yet"
    assert webmill.update_search(tmp_path / "c").documents == published.published.counts.items
    assert webmill.search(tmp_path / "c").total == published.published.counts.items

    went_on = webmill.crawl(tmp_path / "c", max_pages=5)
    assert went_on.total.pages == 5, "it keeps what it was told"
    assert capfd.readouterr() == ("", ""), "functions do not speak"


def test_the_documented_program_runs(
    web: TestWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in variables(web).items():
        monkeypatch.setenv(name, value)
    code = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.DOTALL | re.MULTILINE)[1]
    code = code.replace("https://example.org/", web.home).replace('"5s"', '"0s"').replace("annual report", "mill")
    exec(compile(code, str(DOCS), "exec"), {})
    reported = capsys.readouterr().out.splitlines()
    assert reported[0].startswith("finished ")
    assert reported[1].startswith("http")


def test_a_struct_is_the_whole_truth_of_its_section(web: TestWeb, tmp_path: Path) -> None:
    (tmp_path / "webmill.toml").write_text('[http]\ncontact = "me@example.org"\n[crawl]\nmax_pages = 1\n')
    settings = webmill.CrawlSettings(
        depth=0, allow_private=True, resolve=web.resolve, delay=0.0, address_delay=0.0, processes=1
    )
    report = webmill.crawl(tmp_path, [web.home], settings=settings)
    assert (report.end, report.total.pages) == ("finished", 1)
    assert json.loads((tmp_path / "frontier" / "flags.json").read_text())["depth"] == 0


def test_the_stages_that_are_due_are_run_and_told(tmp_path: Path) -> None:
    archive(tmp_path, PAGES)
    report = webmill.run(tmp_path)
    assert [stage.stage for stage in report.left_out] == ["crawl"]
    assert [stage.stage for stage in report.ended] == ["index", "extract", "publish", "search"]
    assert report.rejected == 0
    assert webmill.search(tmp_path, "ferry").total == 3
    again = webmill.run(tmp_path, stages=["publish"])
    assert again.left_out[0].why == "no documents since the live version"


def test_what_is_wrong_is_an_error_of_ours_that_names_the_repair(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="servers must be told whom to ask"):
        webmill.crawl(tmp_path / "c", ["https://mill.example/"])
    with pytest.raises(WrongUse, match="no setting 'max_page' here: did you mean 'max_pages'"):
        webmill.crawl(tmp_path / "c", max_page=3)
    with pytest.raises(Misconfigured, match="'soon' is not a duration; write 90s"):
        webmill.crawl(tmp_path / "c", delay="soon")
    with pytest.raises(NotFound, match="no collection"):
        webmill.index(tmp_path / "c")
    with pytest.raises(WrongUse, match="no stage 'polish'"):
        webmill.run(tmp_path, stages=["polish"])
    assert not (tmp_path / "c").exists()


def test_importing_webmill_loads_no_stage() -> None:
    code = "import sys, webmill; print([name for name in sys.modules if name.startswith('webmill.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_no_stage_prints_or_exits_or_knows_the_command_line() -> None:
    code = "import sys, webmill; webmill.run; print('click' in sys.modules, 'rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
