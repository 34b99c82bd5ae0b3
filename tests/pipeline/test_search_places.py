"""A hit leads to the archived page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tests.unit.cli.command import webmill
from tests.unit.index.samples import capture, write
from tests.unit.index.zipnum_samples import build
from webmill.collection import Collection

FILE = "crawl-data/c/segments/1/warc/c-00000.warc.gz"


def publish(root: Path, *rows: dict[str, object]) -> None:
    (root / "documents").mkdir(parents=True, exist_ok=True)
    (root / "documents" / "part.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    ended = webmill("publish", "documents", root, "--force")
    assert ended.code == 0, ended.err
    ended = webmill("search", "update", root)
    assert ended.code == 0, ended.err


def page(name: str, text: str, **more: object) -> dict[str, object]:
    return {"url": f"https://a.test/{name}", "date": "2026-01-01T00:00:00Z", "text": text, "title": name} | more


def captured(name: str, stamp: str, *, offset: int = 0, status: str = "200") -> bytes:
    place = {"filename": FILE, "offset": str(offset), "length": "99", "status": status}
    return capture(f"test,a)/{name}", stamp, **place | {"url": f"https://a.test/{name}"})


def find(root: Path, *words: str) -> dict[str, Any]:
    """Title -> capture."""
    ended = webmill("search", root, *words, "--json")
    assert ended.code == 0, ended.err
    return {hit["title"]["text"]: place_in(hit["capture"]) for hit in msgspec.json.decode(ended.out)["hits"]}


def place_in(capture: dict[str, Any] | None) -> dict[str, Any] | None:
    return capture and {name: capture[name] for name in ("url", "timestamp", "filename", "offset", "length")}


def test_a_hit_has_its_newest_capture_in_the_index(tmp_path: Path) -> None:
    root = tmp_path / "c"
    publish(root, page("one", "annual report"), page("two", "annual budget"))
    assert find(root, "annual") == {"one": None, "two": None}
    assert "cannot be looked up" not in webmill("search", root, "annual").err
    folder = Collection(root, "c").zipnum
    folder.mkdir(parents=True)
    lines = [captured("one", "20250101000000", offset=5), captured("one", "20260202000000", offset=1234)]
    build(folder, sorted([*lines, captured("one", "20260303000000", status="404")]))
    place = {"url": "https://a.test/one", "timestamp": "20260202000000", "filename": FILE, "offset": 1234, "length": 99}
    assert find(root, "annual") == {"one": place, "two": None}
    shown = webmill("search", root, "report").out.decode()
    assert f"    20260202000000 {FILE} at 1234, 99 bytes\n" in shown


def test_the_sorted_files_of_an_index_do_as_well(tmp_path: Path) -> None:
    root = tmp_path / "c"
    publish(root, page("one", "annual report"))
    Collection(root, "c").cdxj.mkdir()
    write(Collection(root, "c").cdxj / "a.cdxj", [captured("one", "20260101000000", offset=7)])
    assert find(root, "annual")["one"]["offset"] == 7


def test_a_damaged_index_costs_the_places_not_the_hits(tmp_path: Path) -> None:
    root = tmp_path / "c"
    publish(root, page("one", "annual report"))
    folder = Collection(root, "c").zipnum
    folder.mkdir(parents=True)
    (folder / "cluster.idx").write_bytes(b"rubbish\n")
    ended = webmill("search", root, "annual")
    assert ended.code == 0
    assert "1. one" in ended.out.decode()
    assert "cannot be looked up" in ended.err


def test_a_page_that_was_published_with_its_place_needs_no_index(tmp_path: Path) -> None:
    """As of `webmill cc run`, whose archives are elsewhere; and the place is that of what was published."""
    root = tmp_path / "c"
    publish(root, page("one", "annual report", warc_filename=FILE, warc_offset=5, warc_length=6))
    place = {"url": "https://a.test/one", "timestamp": "20260101000000", "filename": FILE, "offset": 5, "length": 6}
    assert find(root, "annual") == {"one": place}
    Collection(root, "c").cdxj.mkdir()
    write(Collection(root, "c").cdxj / "a.cdxj", [captured("one", "20260909000000", offset=7)])
    assert find(root, "annual") == {"one": place}
    again = {"warc_filename": FILE, "warc_offset": 77, "warc_length": 6, "date": "2026-09-09T00:00:00Z"}
    publish(root, page("one", "annual report", **again))
    assert find(root, "annual") == {"one": place}


def test_arguments_that_are_no_utf8_find_what_is_left_of_them(tmp_path: Path) -> None:
    root = tmp_path / "c"
    publish(root, page("one", "annual report", language="eng"))
    assert [*find(root, "annual", "\udcff", "--count", "\udcff")] == ["one"]
    for option in ("--site", "--language"):
        ended = webmill("search", root, "annual", option, "\udcff")
        assert (ended.code, "0 documents found" in ended.err) == (0, True), ended.err


def test_the_date_that_a_page_states_is_published_searched_and_told(tmp_path: Path) -> None:
    root = tmp_path / "c"
    publish(root, page("one", "annual report", published="2024-05-01T10:30:00Z"), page("two", "annual budget"))
    ended = webmill("search", root, "annual", "published:2024-05", "--json")
    (hit,) = msgspec.json.decode(ended.out)["hits"]
    assert (hit["title"]["text"], hit["published"]) == ("one", "2024-05-01T10:30:00Z")
    blob = msgspec.json.decode((root / "blobs" / "sha256" / f"{hit['hash']}.json").read_bytes())
    assert blob == {"title": "one", "text": "annual report", "published": "2024-05-01T10:30:00Z"}
    assert find(root, "annual", "published:2023") == {}
    assert [*find(root, "annual", "-published:2024")] == ["two"]
