"""A file of the search index that has lost a bit, a piece or itself is named, by every way to read the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from webmill.errors import BadInput, Conflict, NotFound
from webmill.search.base import IndexedDocument, SearchRequest
from webmill.search.embedded import checksums
from webmill.search.embedded.checksums import FILE, META
from webmill.search.embedded.engine import EmbeddedEngine
from webmill.search.query import parse

HARMS: dict[str, Callable[[Path], Any]] = {
    "flipped": lambda path: replace(path, flip(path.read_bytes())),
    "cut": lambda path: replace(path, path.read_bytes()[:-1]),
    "deleted": Path.unlink,
}


def replace(path: Path, data: bytes) -> None:
    """Not in place: engines of before have the file mapped, and look into it when `meta.json` changes."""
    path.with_name(".new").write_bytes(data)
    path.with_name(".new").replace(path)


def flip(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]


def document(number: int) -> IndexedDocument:
    return IndexedDocument(id=f"{number}", version="1", hash=f"{number:064x}", text=f"The ferry number {number}.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with closing(EmbeddedEngine(tmp_path / "search", heap=15 << 20)) as engine:
        engine.apply(map(document, range(20)), (), cursor="1")
    return tmp_path / "search"


def read_all(folder: Path) -> Iterator[object]:
    with closing(EmbeddedEngine(folder, create=False)) as engine:
        yield engine.search(SearchRequest(query=parse("ferry")))
        yield sorted(engine.keys())
        yield engine.count()


@pytest.mark.parametrize("harm", HARMS)
def test_every_file_is_named_that_is(harm: str, folder: Path) -> None:
    whole = list(read_all(folder))
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".") and path.name != FILE)
    assert META in names
    assert len(names) > 5
    for name in names:
        data = (folder / name).read_bytes()
        HARMS[harm](folder / name)
        with pytest.raises((BadInput, NotFound), match=name if name != META else "search"):
            list(read_all(folder))
        replace(folder / name, data)
    assert list(read_all(folder)) == whole


def test_a_large_index_is_verified_while_it_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "AT_ONCE", 0)
    (store,) = folder.glob("*.store")
    replace(store, flip(store.read_bytes()))
    with closing(EmbeddedEngine(folder, create=False)) as engine:
        with pytest.raises(BadInput, match=rf"{store.name}: does not have its checksum: run `webmill search rebuild"):
            engine.verify()
        with pytest.raises(BadInput, match=store.name):
            engine.search(SearchRequest(query=parse("ferry")))


def test_who_reads_while_another_writes_is_not_alarmed(folder: Path) -> None:
    with closing(EmbeddedEngine(folder, heap=15 << 20)) as writer:
        writer.apply([document(30)], (), cursor="2")
        assert not (folder / FILE).exists()
        list(read_all(folder))
        with closing(EmbeddedEngine(folder)) as other, pytest.raises(Conflict, match="is writing to the search index"):
            other.apply([document(31)], (), cursor="3")
        writer.apply([document(32)], ["1"], cursor="4")
    assert (folder / FILE).exists()
    assert list(read_all(folder))[-1] == 21


def test_files_that_were_there_keep_their_checksums(folder: Path) -> None:
    """Else an update would take what is damaged for whole."""
    (store,) = folder.glob("*.store")
    before = checksums.read_checksums(folder)
    with closing(EmbeddedEngine(folder, heap=15 << 20)) as engine:
        engine.apply([document(30)], (), cursor="2")
        replace(store, flip(store.read_bytes()))
    after = checksums.read_checksums(folder)
    assert before
    assert after
    assert after.files[store.name] == before.files[store.name]
    with pytest.raises(BadInput, match=store.name):
        list(read_all(folder))


def test_an_index_of_before_is_read_and_gets_checksums_by_its_next_update(folder: Path) -> None:
    (folder / FILE).unlink()
    whole = list(read_all(folder))
    with closing(EmbeddedEngine(folder, heap=15 << 20)) as engine:
        engine.apply((), (), cursor="2")
    assert (folder / FILE).exists()
    assert list(read_all(folder))[1:] == whole[1:]
