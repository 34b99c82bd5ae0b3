"""What a collection has lost is told by the command that needs it, and made again by the one that can."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.serve.sample_collection import Visit, archive, page
from tests.unit.cli.command import webmill
from webmill.index.state import SETTLED_NS

PAGES = [Visit(f"https://a.example/{n}", f"202401010000{n:02d}", page(f"Page {n}", f"Ferry {n}")) for n in range(8)]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEBMILL_EXECUTOR_URL", "inline")
    archive(tmp_path, PAGES, name="ONE")
    for stage in ("index", "extract", "publish", "search"):
        ended = webmill("run", tmp_path, "--stage", stage)
        assert ended.code == 0, ended.err
    return tmp_path


def flat(root: Path) -> bytes:
    return webmill("cdxj", "flatten", root / "cc-index/collections/ONE/indexes").out


def index_again(root: Path) -> int:
    """Merge the CDXJ files again, and return how many were made anew before."""
    (root / "cc-index/collections/ONE/indexes/cluster.idx").unlink()
    ended = webmill("index", root, "--json")
    assert ended.code == 0, ended.err
    indexed: int = json.loads(ended.out)["indexed"]
    return indexed


def flip(path: Path) -> None:
    """In place, with its times: a disk that loses a bit tells nobody."""
    data, status = bytearray(path.read_bytes()), path.stat()
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_cached_cdxj_with_a_flipped_bit_does_not_enter_the_index(root: Path) -> None:
    time.sleep(SETTLED_NS / 1e9 + 0.1)  # else its WARC may be indexed again anyway
    index_again(root)
    assert index_again(root) == 0, "now it is trusted"
    whole = flat(root)
    (cdxj,) = (root / "cdxj").glob("*.cdxj")
    flip(cdxj)
    assert index_again(root) == 1
    assert flat(root) == whole


def test_a_receipt_without_its_part_stops_publishing_until_it_is_made_again(root: Path) -> None:
    (part,) = (root / "documents").glob("*.gz")
    data = part.read_bytes()
    part.unlink()
    (root / "documents" / "more.jsonl").write_text('{"url": "https://a.example/more", "text": "Ferry more"}\n')
    ended = webmill("publish", "documents", root)
    assert ended.code == 1
    assert str(part) in ended.err
    assert f"`webmill extract {root}`" in ended.err
    assert len(list((root / "snapshots").glob("0*"))) == 1, "nothing was published away"
    reported = [json.loads(line) for line in webmill("doctor", root, "--json").lines]
    assert [one["repair"] for one in reported if one["part"] == "documents"] == [f"webmill extract {root}"]
    assert webmill("extract", root).code == 0
    assert part.read_bytes() == data
    assert webmill("publish", "documents", root).code == 0
    assert json.loads(webmill("search", root, "ferry", "--json").out)["total"] == 9


def test_a_receipt_that_is_gone_is_made_again_with_its_part(root: Path) -> None:
    (receipt,) = (root / ".webmill/extract/receipts").glob("*/*.json")
    receipt.unlink()
    ended = webmill("publish", "documents", root)
    assert ended.code == 1
    assert receipt.parent.name in ended.err
    assert webmill("extract", root).code == 0
    assert receipt.exists()
    assert webmill("publish", "documents", root).code == 0


def test_the_status_of_a_truncated_index_state_is_a_problem_line(root: Path) -> None:
    state = root / "cdxj" / "state.sqlite"
    data = state.read_bytes()
    for length in [0, 1, 15, 16, 99, 100, 511, 512, *range(1024, len(data), 1024)]:
        state.write_bytes(data[:length])
        ended = webmill("status", root, "--json")
        assert ended.code == 0, length
        problems = json.loads(ended.out)["problems"]
        assert [one["part"] for one in problems] == ["index"], (length, problems)
        assert str(state) in problems[0]["message"]
