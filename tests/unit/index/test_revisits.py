from __future__ import annotations

import pytest

from tests.unit.index.samples import capture
from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import CdxjLine, format_line, parse
from webmill.index.lookup import query
from webmill.index.lookup.query import resolve_revisits


def line(stamp: int, **fields: str) -> bytes:
    return format_line(CdxjLine("com,a)/", f"2024010100{stamp:04d}", dict(fields)))


ORIGINAL = line(1, mime="text/html", status="200", digest="D", length="9", offset="5", filename="a.warc.gz")
REVISIT = {"mime": "warc/revisit", "length": "1", "offset": "7", "filename": "b.warc.gz"}


def fields_of(*lines: bytes) -> list[dict[str, object]]:
    return [dict(parse(found).fields) for found in resolve_revisits(lines)]


def test_a_revisit_says_where_its_original_is() -> None:
    original, revisit = fields_of(ORIGINAL, line(2, **REVISIT, digest="D", status="-"))
    assert (original["orig.length"], original["orig.offset"], original["orig.filename"]) == ("-", "-", "-")
    assert (revisit["orig.length"], revisit["orig.offset"], revisit["orig.filename"]) == ("9", "5", "a.warc.gz")
    assert (revisit["mime"], revisit["status"], revisit["offset"]) == ("text/html", "200", "7")


def test_a_revisit_without_an_original_before_it_stays_one() -> None:
    for digest in ("E", ""):
        (_, revisit) = fields_of(ORIGINAL, line(2, **REVISIT, digest=digest))
        assert (revisit["mime"], revisit["orig.filename"]) == ("warc/revisit", "-")
    (first, _) = fields_of(line(0, **REVISIT, digest="D"), ORIGINAL)
    assert first["orig.filename"] == "-"


def test_a_status_that_a_revisit_does_not_have_is_not_invented() -> None:
    (_, revisit) = fields_of(ORIGINAL, line(2, **REVISIT, digest="D"))
    assert "status" not in revisit


def test_no_more_originals_are_held_than_is_sensible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MOST_ORIGINALS", 3)
    with pytest.raises(BadInput, match="too_many"):
        list(resolve_revisits(line(number, digest=str(number)) for number in range(4)))
    assert len(list(resolve_revisits([capture("com,a)/", "20240101000000")] * 9))) == 9
