"""The embedded index on a disk that takes nothing for a while: no damage, and it goes on afterwards."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import tantivy

from tests.faults import needs_killer
from tests.faults.refusing import Refusing
from webmill.errors import BadInput, Unavailable
from webmill.search import fields
from webmill.search.base import IndexedDocument, SearchRequest
from webmill.search.embedded.engine import CURSOR, EmbeddedEngine
from webmill.search.query import parse

PROGRAM = """
import sys
from pathlib import Path
from contextlib import closing
from itertools import repeat
from webmill.errors import WebmillError
from webmill.search.base import IndexedDocument
from webmill.search.embedded.engine import CURSOR, EmbeddedEngine

try:
    with closing(EmbeddedEngine(Path(sys.argv[1]))) as engine:
        document = IndexedDocument(id=sys.argv[2], hash="h", version="v", text="a ferry")
        documents = repeat(document) if sys.argv[3] == "endless" else [document]
        engine.apply(documents, (), cursor=sys.argv[2])
except WebmillError as error:
    print(type(error).__name__, error)
"""


def apply_in_process(folder: Path, name: str, disk: Refusing | None = None, *, documents: str = "one") -> str:
    """Return the error that applying documents of this name ended with; empty if it went well."""
    command = [sys.executable, "-c", PROGRAM, str(folder), name, documents]
    environment = disk.environment if disk else None
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


@needs_killer
@pytest.mark.parametrize("is_there", [False, True])
def test_a_full_disk_is_told_as_such_and_the_index_goes_on_when_there_is_room(tmp_path: Path, is_there: bool) -> None:
    folder = tmp_path / "search"
    if is_there:
        assert apply_in_process(folder, "first") == ""
    disk = Refusing("full", each=1, under=folder)
    for _ in range(2):
        assert (
            apply_in_process(folder, "second", disk)
            == f"Unavailable the disk under the search index in {folder} is full: free some space"
        )
    assert disk.refusals()
    assert apply_in_process(folder, "second") == ""
    with closing(EmbeddedEngine(folder, create=False)) as engine:
        assert engine.cursor() == "second"
        assert engine.search(SearchRequest(query=parse("ferry"))).total == 1 + is_there


@needs_killer
def test_a_full_disk_is_told_as_such_also_when_the_writer_has_died_of_it(tmp_path: Path) -> None:
    """There is always another document to add: adding one fails because the thread that writes them is gone."""
    folder = tmp_path / "search"
    assert apply_in_process(folder, "first") == ""
    disk = Refusing("full", each=1, under=folder)
    reported = apply_in_process(folder, "second", disk, documents="endless")
    assert reported == f"Unavailable the disk under the search index in {folder} is full: free some space"


def test_an_index_that_loses_its_files_while_it_is_written_is_told_by_an_error_of_ours(tmp_path: Path) -> None:
    """Commit, reload and the end of merging too: nothing of tantivy gets out."""
    engine = EmbeddedEngine(tmp_path / "search")
    engine.apply([IndexedDocument(id="a", hash="h", version="v", text="a ferry")], (), cursor="1")
    for file in (tmp_path / "search").iterdir():
        file.unlink()
    (tmp_path / "search").rmdir()
    for change in (
        lambda: engine.apply([IndexedDocument(id="b", hash="h", version="v", text="b")], (), cursor="2"),
        engine.clear,
    ):
        with pytest.raises((Unavailable, BadInput)):
            change()
    engine.close()


def test_an_index_of_other_columns_is_refused_with_the_command_that_makes_it_anew(tmp_path: Path) -> None:
    folder = tmp_path / "search"
    with closing(EmbeddedEngine(folder)) as engine:
        engine.apply([IndexedDocument(id="a", hash="h", version="v", text="a ferry")], (), cursor="1")
        writer = engine._begin()
        writer.delete_documents_by_term("key", CURSOR)
        note = msgspec.msgpack.encode((2, "1"))  # the format of before was a number
        writer.add_document(tantivy.Document(key=[CURSOR], stored=[note]))
        writer.commit()
    with pytest.raises(BadInput, match="run `webmill search rebuild DIR`"):
        EmbeddedEngine(folder)
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("title")
    other = tmp_path / "other"
    other.mkdir()
    tantivy.Index(builder.build(), path=str(other))
    with pytest.raises(BadInput, match="run `webmill search rebuild DIR`"):
        EmbeddedEngine(other)


def test_the_fingerprint_of_an_index_changes_with_the_columns_it_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fields.fingerprint(1)
    assert fields.fingerprint(2) != before
    monkeypatch.setattr(fields, "_INDEXED_COLUMNS", fields._INDEXED_COLUMNS[:-1])
    assert fields.fingerprint(1) != before
