"""Documents of a collection as versions: the newest capture of each URL, and no write for what is the same."""

from __future__ import annotations

import gzip
import io
import json
import secrets
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pytest
import zstandard
from click.testing import CliRunner
from pyarrow.parquet import ParquetFile, write_table

from tests.boards.publishing import blob, checked_items
from webmill.cli.main import webmill
from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.infra.sinks import parquet
from webmill.infra.sinks.base import SinkRow
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.memory import MemoryStorage
from webmill.infra.storage.s3 import S3Options, S3Storage
from webmill.model import Document
from webmill.pipeline.documents import DocumentFiles, is_document_file
from webmill.pipeline.publish.documents import FIRST_SEEN, DocumentsRead, publish_documents
from webmill.pipeline.publish.due import reason_not_to_publish
from webmill.pipeline.publish.newest import RowNumbers
from webmill.publish import history
from webmill.publish.guard import VersionShrunk
from webmill.publish.keys import blob_key
from webmill.publish.manifest import read_version_index
from webmill.publish.publication import PublishOptions, PublishResult, utc_now
from webmill.publish.verify import verify

YEAR_2023, YEAR_2024, YEAR_2025 = (f"{year}-01-01T00:00:00Z" for year in (2023, 2024, 2025))
NOTHING = msgspec.to_builtins(Document(id="", url=""))


def row(url: str, text: str | None, **fields: Any) -> dict[str, Any]:
    """As `webmill extract` and `webmill cc` write it."""
    path = url.removeprefix("http://example.com")
    known = {"id": url, "url": url, "urlkey": f"com,example){path}", "date": YEAR_2024, "title": "T", "text": text}
    known |= {"text_chars": len(text or ""), "language": "eng", "status": 200, "extractor": "resiliparse"}
    return NOTHING | known | {"outcome": "ok" if text else "empty"} | fields


def page(number: int) -> str:
    return f"http://example.com/{number}"


def lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in rows)


def as_parquet(rows: Iterable[dict[str, Any]]) -> bytes:
    written = [SinkRow(msgspec.convert(one, Document), b"") for one in rows]
    return parquet.encode(written, kind=Document, compression="zstd")


def as_zstd(rows: Iterable[dict[str, Any]]) -> bytes:
    return zstandard.ZstdCompressor().compress(lines(rows))


FORMS = {
    "a.jsonl": lines,
    "a.jsonl.gz": lambda rows: gzip.compress(lines(rows)),
    "run/part-1.jsonl.zst": as_zstd,
    "run/part-1.parquet": as_parquet,
}


def published(
    storage: Any, files: dict[str, bytes], *, folder: Path | None = None, **options: Any
) -> tuple[PublishResult, DocumentsRead]:
    place: Any = LocalStorage(folder) if folder else MemoryStorage()
    for key, data in files.items():
        place.write(key, data)
    documents = DocumentFiles(place, folder=folder)
    with nullcontext(Silent()) as bar:
        return publish_documents(
            storage, documents, options=PublishOptions(**{"facets": ("language",)} | options), bar=bar
        )


class Silent:
    def advance(self, count: int = 1) -> None: ...


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("local", [True, False])
def test_documents_are_read_in_every_form_they_are_written(name: str, local: bool, tmp_path: Path) -> None:
    storage = MemoryStorage()
    rows = [row(page(1), "one"), row(page(2), None), row(page(3), "three", language="deu", title=None)]
    done, found = published(storage, {name: FORMS[name](rows)}, folder=tmp_path if local else None)
    items = checked_items(storage)
    assert {id_: blob(storage, item["hash"]) for id_, item in items.items()} == {
        "com,example)/1": {"text": "one", "title": "T", "language": "eng"},
        "com,example)/3": {"text": "three", "language": "deu"},
    }
    assert items["com,example)/1"]["facets"] == {"language": "eng"}
    assert items["com,example)/1"]["metadata"] == {"title": "T", "url": page(1), "date": YEAR_2024}
    assert found.rows == {"published": 2, "no_text": 1, "older": 0}
    assert done.counts.counts["rows_no_text"] == 1


def test_the_newest_capture_wins_wherever_it_lies() -> None:
    storage = MemoryStorage()
    old = [row(page(n), f"old {n}", date=YEAR_2023) for n in range(5)]
    new = [row(page(n), f"new {n}", date=YEAR_2024) for n in range(3)]
    gone = [
        row(page(0), "gone", date=YEAR_2025, status=404),
        row(page(1), None, date=YEAR_2025),
    ]
    dated = [{"id": "x", "url": "http://www.example.com/2", "date": "2024-06-01T00:00:00Z", "text": "newest 2"}]
    files = {"a.jsonl": lines([*new, *gone]), "b.parquet": as_parquet(old), "c.jsonl": lines(dated)}
    _, found = published(storage, files)
    texts = {id_: blob(storage, item["hash"])["text"] for id_, item in checked_items(storage).items()}
    assert texts == {
        "com,example)/0": "new 0",
        "com,example)/1": "new 1",
        "com,example)/2": "newest 2",
        "com,example)/3": "old 3",
        "com,example)/4": "old 4",
    }
    assert found.rows == {"published": 5, "older": 4, "no_text": 1, "not_ok": 1}
    assert len([*storage.list("blobs/")]) == 5  # nothing is written of what is not published


def capture(path: str, year: int, digest: str, text: str | None = None, **fields: Any) -> dict[str, Any]:
    """As `webmill extract` writes it: without text it is a revisit."""
    kind = {"type": "response" if text else "revisit", "status": 200, "language": "eng" if text else None}
    place = {"warc_filename": f"{year}.warc.gz", "warc_offset": 1, "warc_length": 2}
    about = {"url": f"http://example.com{path}", "date": f"{year}-01-01T00:00:00Z", "digest": f"sha1:{digest}"}
    return {**about, **kind, **place, "title": text and text.upper(), "text": text, **fields}


def printed(storage: MemoryStorage) -> dict[str, tuple[str, str, str]]:
    """Text, title and year of each published page, by its path."""
    items = checked_items(storage).values()
    found = [(item["metadata"], blob(storage, item["hash"])) for item in items]
    return {
        about["url"].removeprefix("http://example.com"): (content["text"], content["title"], about["date"][:4])
        for about, content in found
    }


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_page_with_the_bytes_of_another_has_its_text(name: str, backwards: bool) -> None:
    rows = [
        capture("/story", 2022, "AAA", "story"),
        capture("/copy", 2023, "AAA"),
        capture("/third", 2024, "AAA", status=304),
        capture("/lost", 2023, "ZZZ"),
    ]
    rows = rows[::-1] if backwards else rows
    data = document_parquet(rows) if name.endswith("parquet") else lines(rows)
    storage = MemoryStorage()
    _, found = published(storage, {name: data})
    assert printed(storage) == {
        "/story": ("story", "STORY", "2022"),
        "/copy": ("story", "STORY", "2023"),
        "/third": ("story", "STORY", "2024"),
    }
    assert places(storage)["d"] == (YEAR_2024, "2024.warc.gz", 1, 2), "the place of the page itself"
    assert found.rows == {"published": 3, "older": 0, "no_text": 1}
    assert len([*storage.list("blobs/")]) == 1, "one text is one blob"


def document_parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    write_table(pyarrow.Table.from_pylist(rows), out)
    return out.getvalue()


def test_a_page_that_is_as_it_once_was_has_its_old_text_again() -> None:
    storage = MemoryStorage()
    old, new = capture("/a", 2021, "AAA", "open"), capture("/a", 2022, "BBB", "closed")
    published(storage, {"a.jsonl": lines([old, new])})
    assert printed(storage)["/a"][0] == "closed"
    _, found = published(storage, {"a.jsonl": lines([old, new]), "b.jsonl": lines([capture("/a", 2023, "AAA")])})
    assert printed(storage)["/a"] == ("open", "OPEN", "2023")
    assert found.rows == {"published": 1, "older": 2}


def test_a_visit_that_found_nothing_new_changes_nothing() -> None:
    storage = MemoryStorage()
    rows = [capture("/a", 2021, "AAA", "open"), *(capture("/a", year, "AAA") for year in (2022, 2023))]
    first, _ = published(storage, {"a.jsonl": lines(rows[:1])})
    second, found = published(storage, {"a.jsonl": lines(rows)})
    assert (second.is_new, second.version) == (False, first.version)
    assert printed(storage) == {"/a": ("open", "OPEN", "2021")}
    assert found.rows == {"published": 1, "older": 0, "repeated": 2}


@pytest.mark.parametrize(
    "odd", [{"digest": "sha1:ZZZ"}, {"digest": None}, {"digest": 7}, {"status": 404}, {"type": "response"}]
)
def test_a_revisit_of_what_is_not_there_leaves_the_text_before_it(odd: dict[str, Any]) -> None:
    storage = MemoryStorage()
    rows = [capture("/a", 2021, "AAA", "open"), capture("/b", 2021, "BBB", "b"), capture("/a", 2022, "BBB") | odd]
    published(storage, {"a.jsonl": lines(rows)})
    assert printed(storage) == {"/a": ("open", "OPEN", "2021"), "/b": ("b", "B", "2021")}


@pytest.mark.parametrize("readers", [1, 3])
def test_pages_that_are_the_same_cost_no_write(readers: int) -> None:
    """Whether the storage is asked by one thread or by several."""
    storage = MemoryStorage()
    pages = [row(page(n), f"text {n}") for n in range(100)]
    published(storage, {"a.jsonl": lines(pages)})
    again = [row(page(n), f"text {n}", date=YEAR_2025, digest="sha1:another") for n in range(100)]
    again[7]["text"] = "changed"
    done, _ = published(storage, {"b.parquet": as_parquet(again)}, readers=readers)
    counts = done.counts
    assert (counts.changed, counts.relabelled, counts.added, counts.removed) == (1, 0, 0, 0)
    assert (counts.blobs_written, counts.blobs_present) == (1, 99)
    assert verify(storage, read_data=True).findings == ()


@pytest.mark.parametrize("inline", [2, 1000])
def test_documents_that_a_version_holds_make_no_other(inline: int) -> None:
    storage = MemoryStorage()
    rows = [row(page(n), f"text {n}", warc_filename="a.warc.gz", warc_offset=n, warc_length=9) for n in range(80)]
    first, _ = published(storage, {"a.jsonl": lines(rows)}, inline=inline)
    before = [stat.key for stat in storage.list("snapshots/0")]
    visited_again = [{**each, "date": YEAR_2025, "warc_filename": "b.warc.gz"} for each in rows]
    second, found = published(storage, {"a.jsonl": lines(rows), "b.jsonl": lines(visited_again)}, inline=inline)
    assert (first.is_new, second.is_new, second.version) == (True, False, first.version)
    assert (second.counts.items, second.counts.blobs_written, found.rows["older"]) == (80, 0, 80)
    assert [stat.key for stat in storage.list("snapshots/0")] == before
    assert [*storage.list("snapshots/_leases/run-")] == []
    rows[7]["title"] = "another"
    third, _ = published(storage, {"a.jsonl": lines(rows)}, inline=inline)
    assert third.is_new
    assert (third.counts.changed, len(history.list_versions(storage))) == (1, 2)


def test_other_facets_other_errors_a_rollback_and_force_make_a_version_of_the_same_documents() -> None:
    storage = MemoryStorage()
    rows = {"a.jsonl": lines([row(page(1), "one")])}
    broken = {"a.jsonl": rows["a.jsonl"] + b"no row\n"}
    made = [published(storage, rows, facets=())[0] for _ in range(2)]
    made += [published(storage, rows, facets=("domain",))[0] for _ in range(2)]
    made += [published(storage, broken, facets=("domain",))[0] for _ in range(2)]
    history.roll_back(storage, made[0].version.version, at=utc_now())
    made += [published(storage, broken, facets=("domain",))[0] for _ in range(2)]
    assert [one.is_new for one in made] == [True, False] * 4
    assert published(storage, broken, facets=("domain",), force=True)[0].is_new
    assert verify(storage, read_data=True).findings == ()


@pytest.mark.parametrize("file", ["meta/sources.json", "index/language/", "aux/stats.json"])
@pytest.mark.parametrize("damage", ["gone", "other"])
def test_a_version_with_a_damaged_file_is_followed_by_a_whole_one_of_the_same_documents(damage: str, file: str) -> None:
    storage = MemoryStorage()
    rows = {"a.jsonl": lines([row(page(1), "one")])}
    first, _ = published(storage, rows)
    [key] = [stat.key for stat in storage.list(f"snapshots/{first.version.version}/{file}")]
    storage.delete(key)
    if damage == "other":
        storage.write(key, b"[]")
    second, _ = published(storage, rows)
    assert second.is_new
    assert not [one for one in verify(storage, read_data=True).findings if second.version.version in one.key]
    assert not published(storage, rows)[0].is_new


def test_the_command_says_that_nothing_has_changed(tmp_path: Path) -> None:
    LocalStorage(tmp_path / "documents").write("a.jsonl", lines([row(page(1), "one")]))
    command = ["publish", "documents", str(tmp_path), "--json"]
    first, second = (CliRunner().invoke(webmill, command, catch_exceptions=False) for _ in range(2))
    assert (first.exit_code, second.exit_code) == (0, 0)
    version = json.loads(first.stdout)["published"]["version"]
    reported = json.loads(second.stdout)["published"]
    assert (reported["is_new"], reported["version"]) == (False, version)
    assert f"nothing has changed since version {version['version']} (1 published document)" in second.stderr
    assert len(CliRunner().invoke(webmill, ["publish", "list", str(tmp_path)]).stdout.splitlines()) == 1


def test_a_look_at_documents_from_elsewhere_is_none_at_the_collections_own(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "mine", tmp_path / "theirs"
    LocalStorage(elsewhere).write("a.jsonl", lines([row(page(1), "one")]))
    command = ["publish", "documents", str(root), "--from", str(elsewhere)]
    root.mkdir()
    assert CliRunner().invoke(webmill, command).exit_code == 0
    LocalStorage(root / "documents").write("b.jsonl", lines([row(page(2), "two")]))
    again = CliRunner().invoke(webmill, command)
    assert "nothing has changed" in again.stderr
    assert reason_not_to_publish(root) == ""


def test_a_blob_that_is_damaged_is_put_right_when_its_page_comes_again() -> None:
    storage = MemoryStorage()
    rows = [row(page(n), f"text {n}") for n in range(3)]
    published(storage, {"a.jsonl": lines(rows)})
    hashes = [item["hash"] for item in checked_items(storage).values()]
    storage.write(blob_key(hashes[0]), b"cut")
    storage.delete(blob_key(hashes[1]))
    done, _ = published(storage, {"a.jsonl": lines(rows)})
    assert (done.counts.blobs_repaired, done.counts.blobs_written, done.counts.blobs_present) == (1, 1, 1)
    storage.write(blob_key(hashes[2]), storage.read(blob_key(hashes[2])).replace(b"text", b"TEXT"))
    done, _ = published(storage, {"a.jsonl": lines(rows)}, sample=1.0)
    assert done.counts.blobs_repaired == 1
    assert verify(storage, read_data=True).findings == ()


def places(storage: MemoryStorage) -> dict[str, tuple[Any, ...]]:
    reported = ((id_, item["metadata"]) for id_, item in checked_items(storage).items())
    return {id_[-1]: tuple(printed.get(name) for name in FIRST_SEEN) for id_, printed in reported}


def test_an_item_tells_the_capture_that_its_content_was_first_seen_in() -> None:
    storage = MemoryStorage()
    first = {"date": YEAR_2024, "warc_filename": "a.warc.gz", "warc_offset": 12, "warc_length": 34}
    again = {"date": YEAR_2025, "warc_filename": "b.warc.gz", "warc_offset": 56, "warc_length": 78}
    published(storage, {"a.jsonl": lines([row(page(n), f"text {n}", **first) for n in range(3)] + [row(page(3), "x")])})
    old, new = tuple(first.values()), tuple(again.values())
    nothing = (YEAR_2024, None, None, None)
    assert places(storage) == {"0": old, "1": old, "2": old, "3": nothing}
    rows = [row(page(0), "text 0", **again), row(page(1), "changed", **again), row(page(2), "text 2")]
    done, _ = published(storage, {"a.parquet": as_parquet([*rows, row(page(3), "x", **again)])})
    assert places(storage) == {"0": old, "1": new, "2": old, "3": nothing}
    assert (done.counts.changed, done.counts.relabelled) == (1, 0)
    published(storage, {"a.jsonl": lines([row(page(0), "text 0")])}, force=True)
    assert places(storage) == {"0": old}


@pytest.mark.parametrize(
    "odd",
    [
        {"warc_filename": 7},
        {"warc_offset": "12"},
        {"warc_offset": -1},
        {"warc_length": True},
        {"warc_length": 1 << 70},
        {"warc_filename": ""},
    ],
)
def test_a_place_that_is_none_is_no_reason_to_refuse_a_page(odd: dict[str, Any]) -> None:
    storage = MemoryStorage()
    place = {"warc_filename": "a", "warc_offset": 1, "warc_length": 2}
    stranger = {"url": page(1), "text": "x", "date": YEAR_2024, **place, **odd}
    published(storage, {"a.jsonl": lines([stranger])})
    assert places(storage) == {"1": (YEAR_2024, None, None, None)}


def test_a_place_that_is_none_is_left_out_of_what_is_published_of_our_own_documents() -> None:
    storage = MemoryStorage()
    published(storage, {"a.jsonl": lines([row(page(1), "x", warc_filename="a", warc_offset=-1, warc_length=2)])})
    assert places(storage) == {"1": (YEAR_2024, None, None, None)}


def test_documents_of_datasets_tell_their_captures_too() -> None:
    storage = MemoryStorage()
    reported = {"date": "2024-06-01T10:00:00Z", "warc_filename": "a.warc.gz", "warc_offset": 7, "warc_length": 9}
    published(storage, {"c.jsonl": lines([{"url": page(1), "text": "words", **reported}])})
    assert places(storage) == {"1": ("2024-06-01T10:00:00Z", "a.warc.gz", 7, 9)}


@pytest.mark.parametrize(("damage", "readers"), [("gone", 1), ("cut", 1), ("other", 3), ("gone", 3)])
def test_a_damaged_version_does_not_keep_the_next_one_away(damage: str, readers: int) -> None:
    storage = MemoryStorage()
    place = {"warc_filename": "a.warc.gz", "warc_offset": 12, "warc_length": 34}
    rows = [row(page(n), f"text {n}", **place) for n in range(300)]
    published(storage, {"a.jsonl": lines(rows)}, inline=2)
    index = read_version_index(storage, history.live_version(storage))
    assert index.shards
    key = blob_key(index.shards[1].hash)
    data = storage.read(key)
    storage.delete(key)
    if damage != "gone":
        storage.write(key, data[:-1] if damage == "cut" else data.replace(b"text", b"TEXT").replace(b"a.w", b"b.w"))
    moved = [row(page(n), f"text {n}", **place | {"warc_offset": 99}) for n in range(300)]
    done, _ = published(storage, {"a.jsonl": lines(moved)}, inline=2, readers=readers)
    held = index.shards[1].count
    assert (done.counts.items, done.counts.added, done.counts.removed) == (300, held, 0)
    (reported,) = json.loads(storage.read(f"snapshots/{done.version.version}/aux/errors.json"))
    assert (reported["stage"], reported["url"]) == ("index", key)
    assert sum(offset == 99 for _, _, offset, _ in every_place(storage)) == held


def every_place(storage: MemoryStorage) -> list[tuple[Any, ...]]:
    return [tuple(item["metadata"][name] for name in FIRST_SEEN) for item in checked_items(storage).values()]


def test_what_cannot_be_read_is_told_and_what_was_there_before_stays() -> None:
    storage = MemoryStorage()
    first = {"a.parquet": as_parquet([row(page(1), "one")]), "b.jsonl": lines([row(page(2), "two")])}
    published(storage, first)
    bad = {
        "a.parquet": first["a.parquet"][:-20],
        "b.jsonl": first["b.jsonl"] + b'not JSON\n{"url": 7}\n{"url": "\xff"}\n',
    }
    bad["c.jsonl.gz"] = gzip.compress(lines([row(page(3), "three")]))[:-9]
    bad["d.jsonl.zst"] = zstandard.ZstdCompressor().compress(lines([row(page(4), "four")]))[:-9]
    done, found = published(storage, bad)
    assert found.damaged == ["a.parquet", "c.jsonl.gz", "d.jsonl.zst"]
    assert (found.rows["bad_row"], found.rows["bad_documents"]) == (3, 3)
    items = checked_items(storage)
    assert "stale_since" in items["com,example)/1"]
    assert "stale_since" not in items["com,example)/2"]
    errors = json.loads(storage.read(f"snapshots/{done.version.version}/aux/errors.json"))
    assert {one["url"] for one in errors} == {
        "a.parquet",
        "b.jsonl#1",
        "b.jsonl#2",
        "b.jsonl#3",
        "c.jsonl.gz",
        "d.jsonl.zst",
    }


def with_damaged_text(data: bytes) -> bytes:
    """Only the column of texts: what rows are chosen by can still be read."""
    group = ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    column = next(each for each in map(group.column, range(group.num_columns)) if each.path_in_schema == "text")
    end = column.data_page_offset + column.total_compressed_size
    return data[: end - 40] + bytes(40) + data[end:]


def test_texts_that_are_damaged_are_told_and_other_files_give_the_rows_that_were_chosen() -> None:
    storage = MemoryStorage()
    rows = as_parquet([row(page(number), f"text {number}") for number in range(100)])
    old = row(page(200), "old", date="2020-01-01T00:00:00Z")
    new = row(page(200), "new", date=YEAR_2024)
    files = {"a.parquet": rows, "b.jsonl": lines([old, new, old, row(page(201), "gone", status=404)])}
    published(storage, files)
    _, found = published(storage, {**files, "a.parquet": with_damaged_text(rows)})
    assert found.damaged == ["a.parquet"]
    items = checked_items(storage)
    assert len(items) == 101
    assert "stale_since" in items["com,example)/7"]
    assert blob(storage, items["com,example)/200"]["hash"])["text"] == "new"


def test_a_row_that_only_its_head_speaks_for_is_told() -> None:
    table = pyarrow.table({"url": [page(1), page(2)], "text": ["one", "two"], "language": [[1], [2]]})
    write_table(table, out := io.BytesIO())
    _, found = published(MemoryStorage(), {"a.parquet": out.getvalue(), "b.jsonl": lines([row(page(3), "three")])})
    assert (found.rows["bad_row"], found.rows["published"]) == (2, 1)
    assert {problem.url for problem in found.problems} == {"a.parquet#0", "a.parquet#1"}


@pytest.mark.parametrize("local", [True, False])
def test_any_changed_byte_of_a_parquet_file_is_told_or_harmless(local: bool, tmp_path: Path) -> None:
    data = as_parquet([row(page(number), f"text {number}") for number in range(20)])
    storage: Any = LocalStorage(tmp_path) if local else MemoryStorage()
    documents = DocumentFiles(storage, folder=tmp_path if local else None)
    refused = 0
    for at in range(0, len(data), 23):
        storage.write("a.parquet", data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        try:
            list(documents.read("a.parquet"))
        except BadInput:
            refused += 1
    assert refused > 5


def test_too_few_documents_are_refused() -> None:
    storage = MemoryStorage()
    published(storage, {"a.jsonl": lines(row(page(n), "text") for n in range(20))})
    with pytest.raises(VersionShrunk):
        published(storage, {"a.jsonl": lines(row(page(n), "text") for n in range(10))})
    with pytest.raises(NotFound):
        published(storage, {"readme.txt": b"nothing"})
    assert len(checked_items(storage)) == 20
    published(storage, {"a.jsonl": lines(row(page(n), "text") for n in range(10))}, force=True)
    assert len(checked_items(storage)) == 10


def test_facets_are_those_that_were_asked_for() -> None:
    storage = MemoryStorage()
    pages = [row(page(1), "x"), row("http://news.example.co.uk/a", "y", urlkey="", language=None)]
    published(storage, {"a.jsonl": lines(pages)}, facets=("language", "domain"))
    items = checked_items(storage)
    assert items["com,example)/1"]["facets"] == {"domain": "example.com", "language": "eng"}
    assert items["uk,co,example,news)/a"]["facets"] == {"domain": "example.co.uk"}


@pytest.mark.parametrize(
    ("key", "ours"),
    [
        ("a.parquet", True),
        ("0123/part-00000001-00000004.jsonl.zst", True),
        (".webmill/0123-00000001.jsonl.zst", False),
        ("0123/_temporary/part-1.jsonl", False),
        (".a.jsonl", False),
        ("a.json", False),
    ],
)
def test_only_documents_are_taken_for_documents(key: str, ours: bool) -> None:
    assert is_document_file(key) == ours


def test_a_set_of_row_numbers_takes_a_bit_each() -> None:
    bits = RowNumbers()
    for number in (0, 7, 8, 1_000_000):
        bits.add(number)
    assert [number for number in (0, 1, 7, 8, 9, 999_999, 1_000_000, 1_000_001, 10**9) if number in bits] == [
        0,
        7,
        8,
        1_000_000,
    ]


def test_the_command_publishes_the_documents_of_a_collection(tmp_path: Path) -> None:
    place = LocalStorage(tmp_path / "documents")
    place.write("run/part-1.parquet", as_parquet([row(page(1), "one"), row(page(2), "two")]))
    done = CliRunner().invoke(webmill, ["-q", "publish", "documents", str(tmp_path), "--json", "--facet", "domain"])
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert reported["published"]["counts"]["items"] == 2
    assert reported["read"]["rows"]["published"] == 2
    assert set(checked_items(LocalStorage(tmp_path))) == {"com,example)/1", "com,example)/2"}
    place.write("run/part-2.jsonl", b"broken\n")
    assert CliRunner().invoke(webmill, ["-q", "publish", "documents", str(tmp_path)]).exit_code == 3
    empty = CliRunner().invoke(webmill, ["-q", "publish", "documents", str(tmp_path), "--from", str(tmp_path / "no")])
    assert isinstance(empty.exception, NotFound)
    wrong = CliRunner().invoke(webmill, ["-q", "publish", "documents", str(tmp_path), "--storage", "memoryless:x"])
    assert isinstance(wrong.exception, Misconfigured)


def test_documents_of_an_earlier_webmill_stop_the_command_with_the_repair(tmp_path: Path) -> None:
    place = LocalStorage(tmp_path / "documents")
    place.write("a.parquet", as_parquet([row(page(1), "one")]))
    old = {"id": "a", "url": page(2), "text": "two", "warc_filename": "a.warc.gz", "language_reliable": None}
    place.write("b.jsonl", lines([old]))
    done = CliRunner().invoke(webmill, ["-q", "publish", "documents", str(tmp_path)])
    assert isinstance(done.exception, Misconfigured)
    assert "b.jsonl was made by an earlier webmill: run `webmill extract DIR --from-scratch`" in str(done.exception)
    assert history.list_versions(LocalStorage(tmp_path)) == []


@pytest.mark.server("s3")
def test_the_commands_work_on_a_bucket_as_on_a_folder(s3_url: str, tmp_path: Path) -> None:
    bucket, question, options = s3_url.partition("?")
    prefix = f"{bucket}/{secrets.token_hex(6)}"
    source, target = (f"{prefix}/{name}{question}{options}" for name in ("documents", "versions"))
    place = S3Storage(S3Options.from_url(source))

    def command(*arguments: str) -> list[str]:
        line = ["-q", "publish", arguments[0], str(tmp_path), *arguments[1:], "--storage", target]
        done = CliRunner().invoke(webmill, line, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()

    for text in ("one", "another"):
        place.write("part-1.parquet", as_parquet([row(page(1), text), row(page(2), "two")]))
        command("documents", "--from", source)
    assert len(command("list")) == 2
    assert [line[:2] for line in command("diff", "previous", "live")] == ["~ "]
    command("gc", "--keep", "1", "--grace", "0s")
    assert len(command("list")) == 1
    assert command("verify", "--read-data") == []
    assert command("show", "--item", "com,example)/1") == ['{"language":"eng","text":"another","title":"T"}']
