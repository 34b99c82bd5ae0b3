"""A collection's own archives become documents once, whatever happens in between."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.serve.sample_collection import NAME, Visit, archive, page
from tests.thoroughness import kills as kills_of
from tests.unit.cli.command import webmill
from webmill.pipeline.extract.jobs import lock_job

FIRST = [Visit(f"https://a.example/{n}", f"202401010000{n:02d}", page(f"Page {n}", f"Words {n}")) for n in range(6)]
SECOND = [Visit(f"https://b.example/{n}", f"202402010000{n:02d}", page(f"Page {n}", f"More {n}")) for n in range(3)]


def urls(root: Path) -> Counter[str]:
    files = (root / "documents").glob("*.jsonl.gz")
    return Counter(
        json.loads(line)["url"] for file in files for line in gzip.decompress(file.read_bytes()).splitlines()
    )


def wanted(*visits: Visit) -> Counter[str]:
    return Counter(visit.url for visit in visits)


def test_only_archives_that_are_new_are_read(tmp_path: Path) -> None:
    archive(tmp_path, [*FIRST, Visit("https://a.example/gone", "20240101000100", b"gone", 404)])
    ended = webmill("extract", tmp_path, "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["documents"] == 6, "what was not found is no page"
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "documents").glob("*.gz")}
    assert webmill("extract", tmp_path).err == "no new archives\n"

    archive(tmp_path, SECOND, name="OTHER")
    assert json.loads(webmill("extract", tmp_path, "--json").out)["documents"] == 3
    assert urls(tmp_path) == wanted(*FIRST, *SECOND)
    assert before.items() <= {path: path.stat().st_mtime_ns for path in (tmp_path / "documents").glob("*.gz")}.items()
    assert webmill("publish", "documents", tmp_path).code == 0
    assert json.loads((tmp_path / "latest.json").read_bytes())


def test_who_wants_another_format_is_told_what_there_is_and_how_to_have_it(tmp_path: Path) -> None:
    archive(tmp_path, FIRST)
    assert webmill("extract", tmp_path).code == 0
    documents = tmp_path / "documents"
    repair = f"`webmill extract {tmp_path} --format parquet --from-scratch` makes them again"
    made = f"the documents in {tmp_path} were made with"
    reported = webmill("extract", tmp_path, "--format", "parquet")
    why = f"{made} --format jsonl: say the same with flags, or in [extract] of webmill.toml; or {repair}"
    assert (reported.code, reported.err) == (1, f"webmill: cannot start: {why}\n")
    reported = webmill("extract", tmp_path, "--all-captures")
    assert (reported.code, f"{made} --all-captures off: say" in reported.err) == (1, True)
    reported = webmill("extract", tmp_path, "--language", "eng", "--language", "kor", "--min-text", "5")
    assert f"{made} --min-text none, --language none: say" in reported.err
    assert f"`webmill extract {tmp_path} --min-text 5 --language eng --language kor --from-scratch`" in reported.err
    assert urls(tmp_path) == wanted(*FIRST), "nothing was done"
    (documents / "mine.jsonl.gz").write_bytes(gzip.compress(b""))
    again = webmill("extract", tmp_path, "--format", "parquet", "--from-scratch")
    assert again.code == 0, again.err
    assert [file.name for file in documents.glob("*.jsonl*")] == ["mine.jsonl.gz"], "what is not ours stays"
    assert len([*documents.glob("*.parquet")]) == 1
    assert webmill("extract", tmp_path, "--format", "parquet").err == "no new archives\n"


def test_archives_without_a_crawl_around_them_are_read_too(tmp_path: Path) -> None:
    archive(tmp_path / "made", FIRST)
    (file,) = (tmp_path / "made").rglob("*.warc.gz")
    (tmp_path / "mine").mkdir()
    file.rename(tmp_path / "mine" / "by-hand.warc.gz")
    assert webmill("extract", tmp_path / "mine").code == 0
    assert urls(tmp_path / "mine") == wanted(*FIRST)


def test_damage_is_told_and_the_rest_is_kept(tmp_path: Path) -> None:
    archive(tmp_path, FIRST)
    (file,) = (tmp_path / "crawl-data").rglob("*.warc.gz")
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 1000] = bytes(1000)
    file.write_bytes(data)
    ended = webmill("extract", tmp_path)
    assert ended.code == 3
    (errors,) = (tmp_path / ".webmill" / "extract" / "errors").glob("*.jsonl")
    assert f"{errors.parent}" in ended.err
    assert [json.loads(line)["reason"] for line in errors.read_bytes().splitlines()]
    assert 0 < urls(tmp_path).total() < 6
    assert webmill("extract", tmp_path).err == "no new archives\n"


def test_what_another_version_made_is_refused_and_made_anew_on_demand(tmp_path: Path) -> None:
    archive(tmp_path, FIRST)
    assert webmill("extract", tmp_path).code == 0
    settings = tmp_path / ".webmill" / "extract" / "settings.json"
    settings.write_text(settings.read_text().replace('"columns":[', '"columns":["of_tomorrow",'))
    refused = webmill("extract", tmp_path)
    assert (refused.code, "--from-scratch" in refused.err) == (1, True)
    settings.write_text('{"extractor": "of another time"}')
    refused = webmill("extract", tmp_path)
    assert (refused.code, "by another webmill" in refused.err, "--from-scratch" in refused.err) == (1, True, True)
    assert webmill("extract", tmp_path, "--from-scratch").code == 0
    assert urls(tmp_path) == wanted(*FIRST)


def test_nothing_is_forgotten_while_another_run_is_at_it(tmp_path: Path) -> None:
    archive(tmp_path, FIRST)
    assert webmill("extract", tmp_path).code == 0
    with lock_job(tmp_path / ".webmill" / "extract"):
        refused = webmill("extract", tmp_path, "--from-scratch")
    assert refused.code == 1
    assert urls(tmp_path) == wanted(*FIRST)


def weigh(root: Path) -> tuple[int, int]:
    """Documents that are missing, and those that are there again."""
    return (wanted(*FIRST) - urls(root)).total(), (urls(root) - wanted(*FIRST)).total()


def scene_at(root: Path) -> Path:
    root.mkdir()
    archive(root, FIRST)
    return root


@needs_killer
@pytest.mark.slow
@pytest.mark.crash
def test_killed_anywhere_each_page_is_a_document_once(tmp_path: Path) -> None:
    with Stage("webmill.cli.main", under=tmp_path) as stage:
        command = ("-q", "extract")
        whole = stage.warm_up(*command, scene_at(tmp_path / "whole"))
        assert whole.code == 0, whole.output
        kills = lost = twice = 0
        for at in sorted(random.Random(seed(3)).sample(range(1, len(whole.calls) + 1), min(kills_of(12), 40))):
            root = scene_at(tmp_path / str(at))
            dead = stage.run(*command, root, at=at)
            assert dead.killed, dead.output
            again = stage.run(*command, root)
            assert again.code == 0, again.output
            kills += 1
            missing, again_there = weigh(root)
            lost, twice = lost + missing, twice + again_there
            print(at, dead.calls[-1], urls(root))
            assert json.loads((root / ".webmill" / "extract" / "settings.json").read_bytes())
            assert webmill("extract", root).err == "no new archives\n"
    numbers = {"acknowledged": kills * len(FIRST), "lost": lost, "duplicated": twice}
    record("extract", "kill -9 before a durable call", injected=kills, **numbers)
    assert (lost, twice) == (0, 0)
    assert NAME in str(next((tmp_path / "whole" / "crawl-data").iterdir()))


@needs_killer
@pytest.mark.crash
def test_archives_that_were_called_done_before_they_were_read_are_read_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a receipt nothing is done. What is lost in the end is the negative control of those who weigh."""
    monkeypatch.setenv("WEBMILL_EXECUTOR_URL", "inline")  # the one that dies is the one that writes
    root = scene_at(tmp_path / "too_early")
    with Stage("tests.pipeline.broken_promises", under=root / "documents") as stage:
        assert stage.run("done", "-q", "extract", root, at=1).killed
        again = stage.run("done", "-q", "extract", root)
        assert again.code == 0, again.output
    assert weigh(root) == (0, 0)
    (part,) = (root / "documents").glob("*.jsonl*")
    part.unlink()
    lost, _ = weigh(root)
    record("extract", "a part that is gone", injected=1, acknowledged=len(FIRST), lost=lost, control=True)
    assert lost == len(FIRST)
