"""The layout of the uRing crawler: its lists are written, and everything of ours works as without them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from webmill.infra.storage.local import LocalStorage
from webmill.publish import history
from webmill.publish.diff import diff_indexes
from webmill.publish.gc import collect_garbage
from webmill.publish.manifest import read_version_index
from webmill.publish.publication import Publication, PublishOptions, PublishResult
from webmill.publish.shards import read_items
from webmill.publish.types import Layout, PublishedItem
from webmill.publish.verify import verify

NAMES = {"campus": "Seoul", "college": "Engineering", "department": "Computer Science", "board": "공지사항"}


def publish(
    storage: LocalStorage, days: list[int], *, layout: Layout = "uring", page: int = 1000, same: bool = True
) -> PublishResult:
    """Publish a notice for each day; every second one is of another campus."""
    options = PublishOptions(facets=("campus",), layout=layout, inline=page, even_if_same=same, force=True)
    with Publication.begin(storage, options=options) as publication:
        for day in days:
            hash_ = publication.put({"title": f"day {day}", "text": "…"})
            facets = {**NAMES, "category": "event", "campus": "Seoul" if day % 2 else "Wonju"}
            metadata = {"title": f"day {day}", "date": f"2026-03-{day:02d}", "url": f"https://x/{day}", "pinned": True}
            publication.add(PublishedItem(f"notice/{100 - day}", "notice", hash_, facets, metadata))
        return publication.commit()


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def read(storage: LocalStorage, key: str) -> Any:
    return json.loads(storage.read(f"snapshots/{history.live_version(storage).version}/{key}"))


def test_an_index_is_a_list_of_notices_with_the_newest_first(storage: LocalStorage) -> None:
    publish(storage, [1, 3, 2])
    first, second, third = read(storage, "index/all.json")
    assert [one["title"] for one in (first, second, third)] == ["day 3", "day 2", "day 1"]
    assert first == {
        "id": "notice/97",
        "title": "day 3",
        "date": "2026-03-03",
        "link": "https://x/3",
        "campus": "Seoul",
        "college": "Engineering",
        "department_name": "Computer Science",
        "board_name": "공지사항",
        "category": "event",
        "pinned": True,
        "content_hash": first["content_hash"],
    }
    blob = json.loads(storage.read(f"blobs/sha256/{first['content_hash']}.json"))
    assert blob["title"] == "day 3"
    assert read(storage, "index/campus/Seoul.json") == [first, third]


def test_a_list_of_more_items_than_a_page_holds_goes_on_in_the_next(storage: LocalStorage) -> None:
    publish(storage, [*range(1, 8)], page=3)
    pages = ["index/all.json", "index/all/2.json", "index/all/3.json"]
    days = [[one["title"] for one in read(storage, page)] for page in pages]
    assert days == [["day 7", "day 6", "day 5"], ["day 4", "day 3", "day 2"], ["day 1"]]
    listed = read(storage, "index/pages.json")
    assert listed["index/all.json"] == {"count": 7, "pages": pages}
    assert listed["index/campus/Seoul.json"]["pages"] == ["index/campus/Seoul.json", "index/campus/Seoul/2.json"]


def test_without_items_the_list_is_empty(storage: LocalStorage) -> None:
    publish(storage, [])
    assert read(storage, "index/all.json") == []


def test_what_reads_versions_finds_the_items_in_either_layout(storage: LocalStorage) -> None:
    before = publish(storage, [1, 2], layout="webmill").version
    after = publish(storage, [2, 3], page=1).version
    indexes = [read_version_index(storage, version) for version in (before, after)]
    assert [item.metadata["title"] for item in read_items(storage, indexes[1])] == ["day 3", "day 2"]
    assert [(one.change, one.id) for one in diff_indexes(storage, *indexes)] == [
        ("added", "notice/97"),
        ("removed", "notice/99"),
    ]
    assert verify(storage, read_data=True).findings == ()
    report = collect_garbage(storage, keep=5, now=datetime.now(UTC))
    assert (report.trashed, report.unknown) == (0, 0)
    assert verify(storage, read_data=True).findings == ()


def test_a_version_is_made_again_for_another_layout_only(storage: LocalStorage) -> None:
    publish(storage, [1, 2], layout="webmill")
    changed = publish(storage, [1, 2], same=False)
    assert changed.is_new
    assert not publish(storage, [1, 2], same=False).is_new
    assert publish(storage, [1, 2], layout="webmill", same=False).is_new
