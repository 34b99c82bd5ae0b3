"""Our WAT and WET beside those that Common Crawl's own extractor made of the same WARC: 1,143 captures."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from webmill.archive.derive import DeriveJob, DeriveReport, derive, output_name
from webmill.formats.warc.reader import read_records
from webmill.model import Record

with warnings.catch_warnings():  # it warns of its own old classes while it is imported
    warnings.simplefilter("ignore")
    from fastwarc import ArchiveIterator as FastWarcIterator

Json = dict[str, Any]
HTML = ("Envelope", "Payload-Metadata", "HTTP-Response-Metadata", "HTML-Metadata")


class Sides(msgspec.Struct):
    """Texts and descriptions by the id of the record they are about."""

    derived: DeriveReport
    files: dict[str, Path]
    warc: list[Record]
    our_texts: dict[str, str]
    their_texts: dict[str, str]
    our_wat: dict[str, Json]
    their_wat: dict[str, Json]

    def pages(self) -> list[tuple[Json, Json]]:
        """HTML metadata, ours and theirs."""
        both = [(dig(self.our_wat[number]), dig(theirs)) for number, theirs in self.their_wat.items()]
        return [(ours, theirs) for ours, theirs in both if ours is not None and theirs is not None]


def dig(description: Json) -> Json | None:
    found: Any = description
    for name in HTML:
        found = found.get(name) if found is not None else None
    return None if found is None else dict(found)


def records_of(path: Path) -> list[Record]:
    with path.open("rb") as source:
        items = list(read_records(source))
    assert all(isinstance(item, Record) for item in items)
    return items  # type: ignore[return-value]  # just proven


def texts_of(path: Path) -> dict[str, str]:
    found = [record for record in records_of(path) if record.type == "conversion"]
    return {record.refers_to or "": record.content.decode() for record in found}


def descriptions_of(path: Path) -> dict[str, Json]:
    found = [record for record in records_of(path) if record.type == "metadata"]
    return {record.refers_to or "": json.loads(record.content) for record in found}


@pytest.fixture(scope="module")
def sides(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Sides:
    (warc,) = (shared_data / "triple").glob("*.warc.gz")
    folder = tmp_path_factory.mktemp("derived")
    files = {kind: folder / output_name(warc.name, kind) for kind in ("wat", "wet")}
    return Sides(
        derived=derive(DeriveJob(warc=warc, outputs=files)),
        files=files,
        warc=records_of(warc),
        our_texts=texts_of(files["wet"]),
        their_texts=texts_of(warc.with_name(output_name(warc.name, "wet"))),
        our_wat=descriptions_of(files["wat"]),
        their_wat=descriptions_of(warc.with_name(output_name(warc.name, "wat"))),
    )


def overlap(ours: str, theirs: str) -> float:
    one, other = Counter(ours.split()), Counter(theirs.split())
    return (one & other).total() / max(one.total(), other.total(), 1)


def test_the_same_pages_have_a_text(sides: Sides) -> None:
    assert list(sides.our_texts) == list(sides.their_texts)
    assert len(sides.our_texts) == 1137
    assert sides.derived.rejects == ()


def test_texts_agree(sides: Sides) -> None:
    agreed = [overlap(sides.our_texts[number], theirs) >= 0.9 for number, theirs in sides.their_texts.items()]
    assert sum(agreed) >= 1134  # at least 95 % are asked for
    equal = [sides.our_texts[number] == theirs for number, theirs in sides.their_texts.items()]
    assert sum(equal) >= 1115  # byte by byte


@pytest.mark.parametrize(
    ("name", "least"), [("Title", 1137), ("Base", 1139), ("Metas", 1136), ("Link", 1133), ("Scripts", 1133)]
)
def test_heads_agree(sides: Sides, name: str, least: int) -> None:
    pages = sides.pages()
    assert len(pages) == 1139
    same = [ours.get("Head", {}).get(name) == theirs.get("Head", {}).get(name) for ours, theirs in pages]
    assert sum(same) >= least


def test_links_agree(sides: Sides) -> None:
    pages = sides.pages()
    assert sum(ours.get("Links") == theirs.get("Links") for ours, theirs in pages) >= 1120  # all, in the same order
    theirs_all = sum(len(theirs.get("Links", ())) for _, theirs in pages)
    shared = sum((bag(ours) & bag(theirs)).total() for ours, theirs in pages)
    assert shared >= 0.999 * theirs_all


def bag(page: Json) -> Counter[str]:
    return Counter(json.dumps(link, sort_keys=True) for link in page.get("Links", ()))


def test_everything_else_in_descriptions_is_the_same(sides: Sides) -> None:
    """But for three fields: what docs/reference/derive.md says of them."""
    assert list(sides.our_wat) == list(sides.their_wat)
    differences = Counter(
        path
        for number, theirs in sides.their_wat.items()
        for path in paths_that_differ(sides.our_wat[number], theirs, "")
        if "/HTML-Metadata/" not in path
    )
    assert differences == {
        "/Envelope/Payload-Metadata/WARC-Info-Metadata/conformsTo": 1,
        "/Envelope/Payload-Metadata/HTTP-Request-Metadata/Request-Message/Path": 1,
        "/Envelope/Payload-Metadata/HTTP-Request-Metadata/Request-Message/Version": 1,
    }


def paths_that_differ(ours: Any, theirs: Any, path: str) -> list[str]:
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        return [] if ours == theirs else [path]
    names = [*theirs, *(name for name in ours if name not in theirs)]
    return [found for name in names for found in paths_that_differ(ours.get(name), theirs.get(name), f"{path}/{name}")]


def test_every_text_refers_to_a_response_and_every_description_to_a_record(sides: Sides) -> None:
    responses = {record.record_id for record in sides.warc if record.type == "response"}
    assert set(sides.our_texts) <= responses
    assert set(sides.our_wat) == {record.record_id for record in sides.warc}


@pytest.mark.parametrize("kind", ["wat", "wet"])
def test_warcio_and_fastwarc_read_what_we_wrote(sides: Sides, kind: str) -> None:
    ours = [record.record_id for record in records_of(sides.files[kind])]
    with sides.files[kind].open("rb") as file:
        warcio = [
            record.rec_headers.get_header("WARC-Record-ID") for record in WarcioIterator(file, check_digests="raise")
        ]
    with sides.files[kind].open("rb") as file:
        fastwarc = [
            (record.record_id, len(record.reader.read())) for record in FastWarcIterator(file, parse_http=False)
        ]
    assert warcio == ours
    assert [number for number, _ in fastwarc] == ours
    assert [size for _, size in fastwarc] == [record.content_length for record in records_of(sides.files[kind])]


def test_a_page_published_by_common_crawl_has_the_text_digest_and_language_it_was_published_with(
    shared_data: Path, tmp_path: Path
) -> None:
    folder, ours = shared_data / "warc" / "commoncrawl", tmp_path / "whirlwind.warc.wet.gz"
    derive(DeriveJob(warc=folder / "whirlwind.warc.gz", outputs={"wet": ours}))
    names = ("WARC-Target-URI", "WARC-Date", "WARC-Refers-To", "WARC-Block-Digest", "WARC-Identified-Content-Language")
    derived, published = (
        [(record.content, [record.headers.get(name) for name in names]) for record in records_of(path)[1:]]
        for path in (ours, folder / "whirlwind.warc.wet.gz")
    )
    assert derived == published


def test_odd_warcs_of_others_are_derived(shared_data: Path, tmp_path: Path) -> None:
    warcs = sorted((shared_data / "warc" / "warcio").glob("*.warc*"))
    assert warcs
    for warc in warcs:
        files = {kind: tmp_path / output_name(warc.name, kind) for kind in ("wat", "wet")}
        derived = derive(DeriveJob(warc=warc, outputs=files))
        assert len(records_of(files["wat"])) == 1 + derived.records
        assert len(records_of(files["wet"])) == 1 + derived.texts
