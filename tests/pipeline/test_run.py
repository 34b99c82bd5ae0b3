"""`webmill init` and `webmill run`: from a URL to a search, and again as far as something is due."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.serve.sample_collection import Visit, archive, page
from tests.unit.cli.command import started, webmill
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.status_file import StatusFile
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.publish.due import CLOCK_TOLERANCE
from webmill.publish import leases
from webmill.publish.holder import this_process
from webmill.settings import AlertRule, load_settings
from webmill.testing import TestWeb

PAGES = [Visit(f"https://a.example/{n}", f"202401010000{n:02d}", page(f"Page {n}", f"Ferry {n}")) for n in range(3)]


def stages(err: str) -> dict[str, str]:
    """The last line of each."""
    return dict(re.findall(r"^(crawl|index|extract|publish|search): (.*)$", err, re.MULTILINE))


def test_the_settings_file_says_what_every_default_is(tmp_path: Path) -> None:
    ended = webmill("init", tmp_path / "news", "https://example.org/", "--contact", 'me "and" you@example.org')
    assert ended.code == 0, ended.err
    file = tmp_path / "news" / "webmill.toml"
    lines = file.read_text().splitlines()
    assert max(map(len, lines)) <= 120
    before = load_settings(file, collection=None, environment={}, is_trusted=lambda _: True, flags={})
    assert before.http.contact == 'me "and" you@example.org'
    tables = lines.index("# [[ignore]]")
    values = [line for line in lines[:tables] if re.match(r"# \w+ = ", line)]
    chosen = [line.removeprefix("# ") if re.match(r"# \w+ = ", line) else line for line in lines[:tables]]
    file.write_text("\n".join(chosen))
    assert load_settings(file, collection=None, environment={}, is_trusted=lambda _: True, flags={}) == before, (
        "every line may be uncommented"
    )
    assert len(values) > 25
    examples = [line.removeprefix("# ") for line in lines[tables:] if re.match(r"# (\w+ = |\[\[)", line)]
    file.write_text("\n".join([*lines[:tables], *examples]))
    shown = load_settings(file, collection=None, environment={}, is_trusted=lambda _: True, flags={})
    assert shown.changes.rules
    assert shown.alerts.rules == (AlertRule(to="mailto:me@example.org", match='site:example.org "price"'),)
    assert (tmp_path / "news" / "seeds.txt").read_text().endswith("\nhttps://example.org/\n")


def test_nothing_that_is_there_is_changed(tmp_path: Path) -> None:
    (tmp_path / "webmill.toml").write_text("[http]\n")
    ended = webmill("init", tmp_path)
    assert ended.code == 1
    assert "webmill.toml already" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["webmill.toml"]


def test_stages_are_done_as_far_as_they_are_due(tmp_path: Path) -> None:
    ended = webmill("run", tmp_path)
    assert ended.code == 0, ended.err
    assert stages(ended.err)["search"] == "nothing is published yet"
    assert [path.name for path in tmp_path.iterdir()] == [".webmill-run-lock"], "there was nothing to do"

    archive(tmp_path, PAGES, name="ONE")
    archive(tmp_path, PAGES[:1], name="TWO")
    ended = webmill("run", tmp_path)
    assert ended.code == 0, ended.err
    assert ended.err.count("index: done") == 2
    assert stages(ended.err)["search"].startswith("done")
    found = webmill("search", tmp_path, "ferry", "--json")
    assert json.loads(found.out)["total"] == 3

    ended = webmill("run", tmp_path)
    assert stages(ended.err)["publish"] == "no documents since the live version"
    assert len(list((tmp_path / "snapshots").glob("0*"))) == 1

    (tmp_path / "documents" / "late.jsonl").write_text('{"url": "https://a.example/late", "text": "Ferry late"}\n')
    os.utime(tmp_path / "latest.json", (2e9, 2e9))  # it came while a version was made, which was live after that
    ended = webmill("run", tmp_path)
    assert json.loads(webmill("search", tmp_path, "ferry", "--json").out)["total"] == 4, ended.err

    (tmp_path / "documents" / "again.jsonl").write_text('{"url": "https://a.example/late", "text": "Ferry late"}\n')
    time.sleep(2 * CLOCK_TOLERANCE)  # else a look so soon after it could have missed it
    ended = webmill("run", tmp_path)
    assert "publish: publishing documents" in ended.err, "there is a new file"
    assert "nothing has changed since version" in ended.err
    ended = webmill("run", tmp_path)
    assert stages(ended.err)["publish"] == "no documents since the live version", "it was looked at"
    assert len(list((tmp_path / "snapshots").glob("0*"))) == 2

    only = webmill("run", tmp_path, "--stage", "search")
    assert stages(only.err).keys() == {"search"}


def tree(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*")}


def test_a_dry_run_says_what_is_due_and_why_and_changes_nothing(tmp_path: Path) -> None:
    def foretold(*flags: str) -> dict[str, str]:
        before = tree(tmp_path)
        ended = webmill("run", tmp_path, "--dry-run", *flags)
        assert ended.code == 0, ended.err
        assert tree(tmp_path) == before
        return stages(ended.err)

    assert set(foretold().values()) == {
        "skipped: no seeds.txt (`webmill init` makes one): archives are taken as they are",
        "skipped: nothing is archived yet",
        "skipped: there are no documents yet",
        "skipped: nothing is published yet",
    }
    archive(tmp_path, PAGES, name="ONE")
    assert foretold() == {
        "crawl": "skipped: no seeds.txt (`webmill init` makes one): archives are taken as they are",
        "index": "due: ONE: none yet",
        "extract": "due: archives to read: 1",
        "publish": "due if extract makes something new",
        "search": "due if extract makes something new",
    }
    assert webmill("run", tmp_path).code == 0
    assert foretold("--stage", "search", "--stage", "index", "--stage", "publish") == {
        "index": "nothing to do",
        "publish": "skipped: no documents since the live version",
        "search": "nothing to do",
    }
    (tmp_path / "seeds.txt").write_text("https://a.example/\n")
    assert foretold("--stage", "crawl", "--stage", "index") == {
        "crawl": "due: not begun",
        "index": "due if crawl makes something new",
    }


@pytest.mark.parametrize(
    ("waiting", "end", "printed"),
    [
        (7, "stopped", "is left alone (7 URLs wait); to go on: webmill crawl "),
        (1, "", "is left alone (1 URL waits); to go on: webmill crawl "),
        (0, "", "is left alone (the last run was broken off); to go on: webmill crawl "),
        (7, "pages", "has ended"),
        (0, "finished", "has ended"),
    ],
)
def test_a_crawl_that_was_begun_by_hand_is_left_alone_and_told_how_to_go_on(
    waiting: int, end: str, printed: str, tmp_path: Path
) -> None:
    """Its limits were of one run: nobody knows them any more."""
    (tmp_path / "frontier").mkdir()
    file = StatusFile(tmp_path / "frontier", name="by-hand", started=0.0, clock=time.time)
    file.write(CrawlProgress(shard=0, pages=3, waiting=waiting), end=end)
    ended = webmill("run", tmp_path)
    assert ended.code == 0, ended.err
    assert stages(ended.err)["crawl"].startswith("no seeds.txt, ")
    assert printed in stages(ended.err)["crawl"]


def test_settings_that_change_a_crawl_are_told(tmp_path: Path) -> None:
    (tmp_path / "frontier").mkdir()
    flags = {"scope": "domain", "delay": 70.0, "requisites": True, "max_depth": 3, "depth": 2}
    (tmp_path / "frontier" / "flags.json").write_text(json.dumps(flags))
    (tmp_path / "webmill.toml").write_text('[crawl]\nscope = "host"\ndelay = "70s"\nflags = "--requisites"\n')
    (tmp_path / "seeds.txt").write_text("")  # nothing is asked of anybody
    ended = webmill("run", tmp_path, "--stage", "crawl")
    assert re.findall("until now its (.*);", ended.err) == ["scope was domain"]
    assert "[crawl] flags is out of use; write page_resources = true" in ended.err


def test_a_notice_about_settings_tells_no_secret(tmp_path: Path) -> None:
    (tmp_path / "webmill.toml").write_text('[crawl]\nflags = "--frontier redis://me:hush@10.0.0.1/0"\n')
    ended = webmill("run", tmp_path, "--dry-run")
    assert ended.err.count("[crawl] flags is out of use") == 1
    assert 'frontier = "redis://***@10.0.0.1/0"' in ended.err
    assert "hush" not in ended.err


def test_a_stage_that_has_rejects_is_told_in_the_end(tmp_path: Path) -> None:
    archive(tmp_path, PAGES)
    (file,) = (tmp_path / "crawl-data").rglob("*.warc.gz")
    file.write_bytes(file.read_bytes()[:-30])
    ended = webmill("run", tmp_path)
    assert ended.code == 3
    assert "some input rejected" in ended.err
    assert stages(ended.err)["search"].startswith("done"), "the rest is done all the same"


def test_wrong_settings_are_told_before_anything_is_done(tmp_path: Path) -> None:
    (tmp_path / "webmill.toml").write_text('[run]\nstages = "index, polish"\n')
    ended = webmill("run", tmp_path)
    assert ended.code == 1
    assert "unknown stage 'polish'" in ended.err


def test_two_runs_do_not_meet(tmp_path: Path) -> None:
    archive(tmp_path, PAGES)
    first = started("run", tmp_path, "--every", "1h")
    try:
        assert first.stderr
        while line := first.stderr.readline():
            if line.startswith(b"search: done"):
                break
        second = webmill("run", tmp_path)
        assert second.code == 1
        assert "another process is running all stages" in second.err
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=120)
        assert first.returncode == 130
        assert webmill("run", tmp_path).code == 0
    finally:
        first.kill()
        first.communicate()


def test_a_stage_is_broken_off_at_once_and_done_the_next_time(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "a.jsonl").write_text('{"url": "https://a.example/", "text": "Ferry"}\n')
    with leases.hold_gc_lease(LocalStorage(tmp_path), holder=this_process()):  # which a publisher waits for
        process = started("run", tmp_path)
        try:
            deadline = time.monotonic() + 120
            while not list(tmp_path.glob("snapshots/_leases/run-*.json")):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, printed = process.communicate(timeout=120)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 130
    assert b"interrupted: finished work is kept; run the same command again to continue" in printed
    assert not (tmp_path / "latest.json").exists()
    assert webmill("run", tmp_path).code == 0
    assert (tmp_path / "latest.json").exists()


@pytest.mark.slow
def test_a_web_is_crawled_indexed_published_and_found(tmp_path: Path) -> None:
    with TestWeb() as web:
        hosts = {page.url.split("/")[2].partition(":")[0] for page in web.pages()}
        resolve = [f"{host}={web.resolve[host][0]}:{web.port}" for host in sorted(hosts)]
        assert webmill("init", tmp_path / "news", web.home, "--contact", "me@example.org").code == 0
        file = tmp_path / "news" / "webmill.toml"
        text = file.read_text()
        for name, value in {
            "max_pages": "5",
            "scope": '"any"',
            "delay": '"0s"',
            "allow_private": "true",
            "address_delay": '"0s"',
            "processes": "1",
            "resolve": json.dumps(resolve),
        }.items():
            text = re.sub(
                rf"^# {name} = .*$", lambda _, n=name, v=value: f"{n} = {v}", text, count=1, flags=re.MULTILINE
            )
        file.write_text(text)
        ended = webmill("run", tmp_path / "news")
    assert ended.code == 0, ended.err
    assert stages(ended.err)["crawl"].startswith("done")
    assert stages(ended.err)["search"].startswith("done")
    found = json.loads(webmill("search", tmp_path / "news", "mill", "--json").out)
    assert found["total"] >= 1
