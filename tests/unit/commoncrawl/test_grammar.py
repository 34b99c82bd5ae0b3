"""The order of records, as a report."""

from __future__ import annotations

import io

from tests.unit.commoncrawl.triples import PDF, WARC, WAT, WET, Spec, Triple, make_triple
from webmill.commoncrawl.grammar import OrderFinding, check_file
from webmill.formats.warc.typed_records import FileType

SPECS = [Spec("a"), PDF, Spec("b")]


def check(triple: Triple, file_type: FileType) -> list[OrderFinding]:
    return list(check_file(io.BytesIO(triple.of(file_type)), file_type=file_type))


def test_a_well_formed_triple_has_no_findings() -> None:
    triple = make_triple(SPECS)
    assert [check(triple, kind) for kind in (WARC, WAT, WET)] == [[], [], []]


def test_a_page_without_metadata_and_one_without_request_are_found_where_they_stand() -> None:
    triple = make_triple([Spec("a", metadata=False), Spec("b"), Spec("c", request=False)])
    assert check(triple, WARC) == [
        OrderFinding(WARC, triple.places["b"][WARC][0][0], ("metadata",), "request"),
        OrderFinding(WARC, triple.places["c"][WARC][0][0], ("request",), "response"),
    ]
    assert [finding.found for finding in check(triple, WAT)] == ["metadata of request", "metadata of response"]


def test_damage_is_a_finding_and_derails_nothing() -> None:
    triple = make_triple(SPECS)
    data = bytearray(triple.warc)
    start, end = triple.places["a"][WARC][1]
    data[end - 1] ^= 1
    assert [(finding.offset, finding.found) for finding in check(triple.replacing(WARC, bytes(data)), WARC)] == [
        (start, "damage: bad_crc"),
        (end, "metadata"),
    ]


def test_an_empty_file_and_a_file_of_something_else_are_found() -> None:
    triple = make_triple(SPECS)
    assert check(triple.replacing(WET, b""), WET) == [OrderFinding(WET, 0, ("warcinfo",), "the end of the file")]
    assert check(triple.replacing(WET, triple.warc), WET)


def test_a_record_without_its_mandatory_fields_is_found() -> None:
    triple = make_triple(SPECS)
    result = check(triple.replacing(WET, make_triple(SPECS).warc), WET)
    assert ("WARC-Refers-To",) in {finding.expected for finding in result}
