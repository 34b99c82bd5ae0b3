"""A summary that is garbage, cut or empty: no capture may seem to be missing because of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serve.cdx_samples import NAME, make_captures, put_index
from tests.serve.warc_fixtures import serve_both_origins
from webmill.index.lookup.block_cache import BlockCache
from webmill.infra.storage.local import LocalStorage
from webmill.serve.cdx import served_index
from webmill.serve.cdx.served_index import ServedIndex

LINES = make_captures(1500, seed=7)
PAGE = "https://town.example/"
ASKED = (
    f"/{NAME}-index?url=*.com",
    f"/{NAME}-index?url=no.example/",
    f"/{NAME}-index?url=*.com&page=1",
    f"/{NAME}-index?url=*.com&showNumPages=true",
    f"/cdx?url={PAGE}",
    f"/timemap/link/{PAGE}",
    f"/timegate/{PAGE}",
    f"/raw/2023/{PAGE}",
    f"/web/2023/{PAGE}",
    f"/history?url={PAGE}",
)


def middle_line(data: bytes) -> int:
    return data.index(b"\n", len(data) // 2) + 1


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda _: b"nonsense\n",
    "bytes": lambda _: bytes(range(256)) * 50,
    "one long line": lambda _: b"\xff" * 50_000,
    "zeros": lambda data: bytes(len(data)),
    "zeros at its end": lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
    "cut in a line": lambda data: data[: middle_line(data) - 20],
    "cut behind a line": lambda data: data[: data.index(b"\n") + 1],
    "cut in the last number": lambda data: data[:-2],
    "empty": lambda _: b"",
    "lines swapped": lambda data: data[middle_line(data) :] + data[: middle_line(data)],
}


@pytest.fixture
def summary(sample_root: Path, tmp_path: Path) -> Path:
    """Of one crawl of two."""
    root = Path(shutil.copytree(sample_root, tmp_path / "both", symlinks=True))
    return put_index(root, LINES) / "cluster.idx"


def root_of(summary: Path) -> Path:
    return summary.parents[4]


@pytest.mark.parametrize("damage", DAMAGE)
def test_every_question_is_told_that_the_index_is_damaged(summary: Path, damage: str) -> None:
    summary.write_bytes(DAMAGE[damage](summary.read_bytes()))
    with serve_both_origins(root_of(summary)) as (own, replay):
        for client, path in (*((own, path) for path in ASKED), (replay, f"/web/2023/{PAGE}")):
            answer = client.get(path)
            assert (answer.status_code, "Retry-After" in answer.headers) == (503, True), path
            assert f"the index of {NAME} is damaged" in answer.text, path
            assert str(root_of(summary)) not in answer.text
        ready = own.get("/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (503, False)
        assert f"{NAME}: the index of {NAME} is damaged" in ready.json()["index"]
        assert {crawl["id"] for crawl in own.get("/collinfo.json").json()} == {NAME, "TOWN-2024"}


def test_a_summary_that_is_damaged_while_it_is_served_is_told_and_a_good_one_is_answered_from_at_once(
    summary: Path,
) -> None:
    good = summary.read_bytes()
    with serve_both_origins(root_of(summary)) as (own, _):
        for data, status in ((good, 200), (good[: len(good) // 2], 503), (good, 200), (b"", 503), (good, 200)):
            aside = summary.with_name("aside")
            aside.write_bytes(data)
            aside.replace(summary)
            assert own.get(f"/cdx?url={PAGE}").status_code == own.get("/readyz").status_code == status


def test_a_flaw_that_goes_away_is_forgotten(summary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = max(summary.parent.glob("cdx-*.gz"))
    data = shard.read_bytes()
    monkeypatch.setattr(served_index, "RECHECK_SECONDS", 0.0)
    with serve_both_origins(root_of(summary)) as (own, _):
        shard.write_bytes(data + data)
        assert own.get("/readyz").status_code == 503
        shard.write_bytes(data)
        assert own.get("/readyz").status_code == 200


def test_of_an_index_whose_last_shard_is_on_its_way_the_others_are_answered_from(summary: Path) -> None:
    shard = max(summary.parent.glob("cdx-*.gz"))
    with serve_both_origins(root_of(summary)) as (own, _):
        for data in (shard.read_bytes()[:10], None):
            shard.write_bytes(data) if data else shard.unlink()
            first, last = (line.split(b" ", 2)[0].decode() for line in (LINES[0], LINES[-1]))
            for key, status in ((first, 200), (last, 503)):
                host = ".".join(reversed(key.partition(")")[0].split(",")))
                assert own.get(f"/{NAME}-index", params={"url": host, "matchType": "host"}).status_code == status


def test_a_shard_that_is_missing_is_told_where_it_is_asked_for_and_by_readiness(summary: Path) -> None:
    min(summary.parent.glob("cdx-*.gz")).unlink()
    with serve_both_origins(root_of(summary)) as (own, _):
        assert own.get(f"/{NAME}-index?url=*.com").status_code == 503
        assert own.get("/readyz").status_code == 503
        assert own.get(f"/TOWN-2024-index?url={PAGE}").status_code == 200


def test_an_index_of_nothing_is_sound(tmp_path: Path) -> None:
    put_index(tmp_path, [])
    with serve_both_origins(tmp_path) as (own, _):
        assert own.get(f"/{NAME}-index?url=*.com").status_code == 404
        assert own.get("/readyz").json() == {"ready": True, "versions": "nothing yet", "index": NAME}


def test_a_summary_is_checked_once_for_each_that_is_put_there(summary: Path) -> None:
    checked = []

    class Watched(ServedIndex):
        def _check(self, *arguments: object) -> None:
            checked.append(arguments)

    index = Watched(LocalStorage(summary.parent), name=NAME, kept=BlockCache())
    for _ in range(3):
        index.current()
    assert len(checked) == 1
    data = summary.read_bytes()
    summary.unlink()
    summary.write_bytes(data)
    index.current()
    assert len(checked) == 2
