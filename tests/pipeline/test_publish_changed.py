"""A publication that reads only what is new gives the bytes of one that reads everything."""

from __future__ import annotations

import json
import os
import random
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.pipeline.test_publish_documents import Silent, as_parquet, lines
from webmill.infra.storage.local import LocalStorage
from webmill.model import Document
from webmill.pipeline.documents import DocumentFiles
from webmill.pipeline.publish import documents as publishing
from webmill.publish import history
from webmill.publish.blobs import read_blob
from webmill.publish.manifest import read_entry, read_manifest, read_version_index
from webmill.publish.publication import PublishOptions, PublishResult, utc_now
from webmill.publish.shards import read_items
from webmill.publish.verify import verify

NOTHING: dict[str, Any] = msgspec.to_builtins(Document(id="", url=""))
ABOUT_THE_MAKING = ("aux/diff.json", "aux/changes")


class Bench:
    """One folder of documents, published with a state and, beside it, without one."""

    def __init__(self, folder: Path) -> None:
        self.documents, self.state = folder / "documents", folder / "state" / "newest.sqlite"
        self.with_state, self.without = LocalStorage(folder / "one"), LocalStorage(folder / "other")
        self.options = PublishOptions(facets=("language", "domain"), inline=20, facet_inline=8, most_lost=1.0)
        for place in (self.documents, folder / "one", folder / "other"):
            place.mkdir(parents=True)

    def add(self, name: str, rows: list[dict[str, Any]]) -> None:
        data = as_parquet(rows) if name.endswith(".parquet") else lines(rows)
        LocalStorage(self.documents).write(name, data)

    def publish(self, *, state: bool = True, **options: Any) -> PublishResult:
        storage = self.with_state if state else self.without
        chosen = msgspec.structs.replace(self.options, **options)
        files = DocumentFiles(LocalStorage(self.documents), folder=self.documents)
        with nullcontext(Silent()) as bar:
            return publishing.publish_documents(
                storage, files, options=chosen, bar=bar, state=self.state if state else None
            )[0]

    def check_same(self) -> None:
        """Publish both ways, and compare every file of the two versions."""
        one, other = self.publish(), self.publish(state=False)
        assert files_of(self.with_state, one) == files_of(self.without, other)
        assert counted(one) == counted(other)
        assert one.is_new == other.is_new
        assert not verify(self.with_state, read_data=True).findings


def counted(published: PublishResult) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(published.counts)
    about_time = ("started_at", "finished_at", "blobs_written", "bytes_written", "blobs_present", "counts")
    counts = {name: count for name, count in told["counts"].items() if count}
    return {name: value for name, value in told.items() if name not in about_time} | counts


def files_of(storage: LocalStorage, published: PublishResult) -> dict[str, Any]:
    """Return the bytes of all files; of those that tell about the making all but names and times of versions."""
    manifest = read_manifest(storage, published.version)
    files: dict[str, Any] = {e.key: read_entry(storage, published.version, e) for e in manifest.files}
    del files["aux/stats.json"]
    for key in [key for key in files if key.startswith(ABOUT_THE_MAKING)]:
        files[key] = without_names(json.loads(files[key]))
    return files


def without_names(told: Any) -> Any:
    if isinstance(told, list):
        return [without_names(one) for one in told]
    if isinstance(told, dict):
        return {key: value for key, value in told.items() if key not in ("from", "to", "version", "parent", "at")}
    return told


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("all documents are read")


@pytest.fixture
def only_new(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Fail when everything is read after all."""
    return lambda: monkeypatch.setattr(publishing, "publish_all", never)


def row(number: int, day: int, text: str | None, **fields: Any) -> dict[str, Any]:
    host = f"site{number % 3}.example"
    about = {
        "url": f"http://{host}/{number}",
        "urlkey": f"example,site{number % 3})/{number}",
        "digest": f"sha1:{text}",
    }
    place = {"warc_filename": f"{day}.warc.gz", "warc_offset": number, "warc_length": 9}
    told = {"id": f"{day}-{number}", "date": f"2024-01-{day:02}T00:00:00Z", "status": 200, "type": "response"}
    made = {"text": text, "title": f"T {text}", "text_chars": len(text or ""), "language": "eng"}
    return NOTHING | about | place | told | made | {"outcome": "ok"} | fields


def revisit(number: int, day: int, text: str) -> dict[str, Any]:
    fields = {"type": "revisit", "digest": f"sha1:{text}", "text_chars": 0, "title": None, "language": None}
    return row(number, day, None, **fields)


def removal(number: int, day: int) -> dict[str, Any]:
    return row(number, day, None, outcome="removed", status=404)


def any_row(dice: random.Random, *, pages: int) -> dict[str, Any]:
    number, day, text = dice.randrange(pages), dice.randrange(1, 29), f"text {dice.randrange(40)}"
    kind = dice.random()
    if kind < 0.6:
        return row(number, day, text, language=dice.choice(["eng", "deu", None]))
    if kind < 0.85:
        return revisit(number, day, text)
    return removal(number, day) if kind < 0.95 else row(number, day, "gone", status=dice.choice([404, 301]))


@pytest.mark.parametrize("seed", range(6))
def test_reading_what_is_new_gives_the_bytes_of_reading_everything(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    bench, pages = Bench(tmp_path), dice.choice([15, 60, 300])
    names = [f"{letter}.{dice.choice(['jsonl', 'parquet'])}" for letter in "abcdefgh"]
    dice.shuffle(names)  # a file that comes later may be before the others
    bench.add("m.jsonl", [row(number, 1, f"first {number}") for number in range(0, pages, 2)])
    bench.check_same()
    for name in names:
        bench.add(name, [any_row(dice, pages=pages) for _ in range(dice.choice([0, 1, 5, 40]))])
        bench.check_same()


def test_only_new_files_are_read(tmp_path: Path, only_new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    bench.add("a.parquet", [row(number, 1, f"first {number}") for number in range(200)])
    bench.publish()
    only_new()
    read = list[str]()
    original = DocumentFiles.read

    def watched(self: DocumentFiles, key: str, **options: Any) -> Any:
        read.append(key)
        return original(self, key, **options)

    monkeypatch.setattr(DocumentFiles, "read", watched)
    bench.add("b.parquet", [row(7, 2, "changed")])
    done = bench.publish()
    assert set(read) == {"b.parquet"}
    assert (done.counts.changed, done.counts.added, done.counts.items, done.blobs.written) == (1, 0, 200, 3)


def test_documents_that_change_nothing_make_no_version(tmp_path: Path, only_new: Any) -> None:
    bench = Bench(tmp_path)
    bench.add("a.jsonl", [row(number, 1, f"first {number}") for number in range(50)])
    first = bench.publish()
    only_new()
    bench.add("b.jsonl", [revisit(number, 2, f"first {number}") for number in range(50)])
    again = bench.publish()
    assert not again.is_new
    assert again.version == first.version
    bench.add("c.jsonl", [removal(3, 3), row(60, 3, "new")])
    third = bench.publish()
    assert (third.is_new, third.counts.removed, third.counts.added) == (True, 1, 1)


def change_file(bench: Bench) -> None:
    bench.add("a.jsonl", [row(number, 1, f"other {number}") for number in range(30)])


def remove_file(bench: Bench) -> None:
    (bench.documents / "b.jsonl").unlink()


def lose_state(bench: Bench) -> None:
    bench.state.unlink()


def cut_state(bench: Bench) -> None:
    os.truncate(bench.state, 700)


def flip_state(bench: Bench) -> None:
    data = bytearray(bench.state.read_bytes())
    data[len(data) // 2] ^= 4
    bench.state.write_bytes(data)


def replace_state(bench: Bench) -> None:
    bench.state.write_bytes(b"not a database, but something else that is here")


def roll_back(bench: Bench) -> None:
    first = history.list_versions(bench.with_state)[0]
    history.roll_back(bench.with_state, first.version, at=utc_now())


def damage_shard(bench: Bench) -> None:
    for blob in (bench.state.parent.parent / "one/blobs/sha256").iterdir():
        if blob.read_bytes().startswith(b"["):
            blob.write_bytes(b"[]\n")


@pytest.mark.parametrize(
    "spoil",
    [change_file, remove_file, lose_state, cut_state, flip_state, replace_state, roll_back, damage_shard],
)
def test_when_the_state_cannot_be_used_everything_is_read_with_the_same_result(spoil: Any, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.add("a.jsonl", [row(number, 1, f"first {number}") for number in range(30)])
    bench.publish()
    bench.add("b.jsonl", [row(number, 2, f"second {number}") for number in range(3, 9)])
    bench.publish()
    spoil(bench)
    bench.add("c.jsonl", [row(number, 3, f"third {number}") for number in range(6, 12)])
    done = bench.publish()
    shutil.rmtree(bench.state.parent)
    expected = {f"http://site{n % 3}.example/{n}": f"third {n}" for n in range(6, 12)}
    texts = published_texts(bench)
    assert expected.items() <= texts.items()
    assert texts["http://site1.example/4"] == ("first 4" if spoil is remove_file else "second 4")
    assert done.counts.items == 30
    live = history.live_version(bench.with_state).version
    assert live in verify(bench.with_state, read_data=True).whole


def published_texts(bench: Bench) -> dict[str, str]:
    live = history.live_version(bench.with_state)
    items = read_items(bench.with_state, read_version_index(bench.with_state, live))
    return {str(item.metadata["url"]): json.loads(read_blob(bench.with_state, item.hash))["text"] for item in items}


@pytest.mark.parametrize("settings", [{"facets": ("language",)}, {"inline": 5}, {"force": True}])
def test_other_settings_and_force_read_everything(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.add("a.jsonl", [row(number, 1, f"first {number}") for number in range(30)])
    bench.publish()
    bench.add("b.jsonl", [row(3, 2, "second")])
    monkeypatch.setattr(publishing, "publish_all", never)
    with pytest.raises(AssertionError, match="all documents are read"):
        bench.publish(**settings)


def test_a_row_that_cannot_be_published_is_told_as_ever(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.add("a.jsonl", [row(number, 1, f"first {number}") for number in range(30)])
    bench.publish()
    bench.add("b.jsonl", [row(3, 2, "second"), {"id": 7, "url": [], "outcome": "ok"}])
    done = bench.publish()
    assert done.counts.errors == 1
    bench.add("c.jsonl", [row(4, 3, "third")])
    assert bench.publish().counts.errors == 1


def test_a_kill_before_the_state_is_written_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    bench.add("a.jsonl", [row(number, 1, f"first {number}") for number in range(30)])
    bench.check_same()
    bench.add("b.jsonl", [row(3, 2, "second")])

    class Killed(BaseException):
        pass

    def kill(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("webmill.pipeline.publish.changed.record_moves", kill)
        with pytest.raises(Killed):
            bench.publish()
    bench.publish(state=False)
    bench.check_same()  # everything is read, and the version is the same
    bench.add("c.jsonl", [row(4, 3, "third")])
    bench.check_same()
