"""Finding records without inflating bodies gives what the strict reader gives, whatever pages hold."""

from __future__ import annotations

import gzip
import io
import random
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from webmill.formats.compression.member_checksum import add_checksum
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.quick_head import WarcHeadReader, known_fields
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.scan import ScannedRecord, ScanOptions, scan_records
from webmill.model import Damage, Headers, Record

NOISE = random.Random(7).randbytes(1 << 20)
HARMLESS = {"missing_terminator"}  # of a body that was not looked at


def make_record(
    number: int, body: bytes, *, kind: str = "response", extra: str = "", end: bytes = b"\r\n\r\n"
) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Date: 2024-07-12T10:00:03Z\r\n{extra}"
        f"WARC-Record-ID: <urn:uuid:{number:08}>\r\nContent-Length: {len(body)}\r\n"
        f"WARC-Target-URI: http://site.example/{number}\r\n\r\n"
    )
    return head.encode() + body + end


def squeeze(data: bytes, *, level: int = 6, name: bool = False, flush_every: int = 0) -> bytes:
    if name:
        out = io.BytesIO()
        with gzip.GzipFile("page.warc", "wb", level, out, mtime=1) as file:
            file.write(data)
        return out.getvalue()
    machine = zlib.compressobj(level, zlib.DEFLATED, 31)
    if not flush_every:
        return machine.compress(data) + machine.flush()
    pieces = (data[at : at + flush_every] for at in range(0, len(data), flush_every))
    return b"".join(machine.compress(piece) + machine.flush(zlib.Z_SYNC_FLUSH) for piece in pieces) + machine.flush()


def scan(data: bytes, *, enough: bool = True, **options: bool) -> list[ScannedRecord | Damage]:
    return list(scan_records(io.BytesIO(data), enough=lambda *_: enough, scan=ScanOptions(**options)))


def places(items: list[ScannedRecord | Damage] | list[Record | Damage]) -> list[tuple[int, int, bytes]]:
    found = []
    for item in items:
        if isinstance(item, ScannedRecord):
            found.append((item.offset, item.length, item.fields.get(b"WARC-Target-URI", b"")))
        elif isinstance(item, Record):
            found.append((item.offset, item.length, (item.target_uri or "").encode("utf-8", "surrogateescape")))
    return found


def damages(items: list[ScannedRecord | Damage] | list[Record | Damage]) -> list[Damage]:
    return [item for item in items if isinstance(item, Damage)]


def strict(data: bytes) -> list[Record | Damage]:
    return list(read_records(io.BytesIO(data)))


# --- forged members -------------------------------------------------------------------------------------------------

BANK = "http://bank.example/login"


def forge(*, second: bool = False) -> tuple[bytes, bytes]:
    """A record whose page carries the length of its own record and, behind it, a member with a forged record.

    The forged record's Content-Length makes the real member's end its own. (`second`: it ends where it says.)
    """
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Date: 2024-01-01T00:00:00Z\r\nWARC-Target-URI: {BANK}\r\n"
        "WARC-Record-ID: <urn:uuid:forged>\r\nWARC-Payload-Digest: sha1:AAAA\r\nContent-Length: %07d\r\n\r\n"
    )
    content = b"HTTP/1.1 200 OK\r\n\r\n" + NOISE[200_000:209_000] + b"\r\n\r\n"

    def page(length: int) -> tuple[bytes, bytes]:
        forged = squeeze((head % length).encode() + content, level=0)
        return b"HTTP/1.1 200 OK\r\n\r\n" + NOISE[:60_000] + b"LEN!" + forged + NOISE[60_000:90_000], forged

    size = len(make_record(1, page(0)[0]))
    body, forged = page(len(content) - 4 if second else size - len(head % 0) - 4)
    return make_record(1, body.replace(b"LEN!", size.to_bytes(4, "little"))), forged


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_a_page_cannot_forge_a_record(level: int, *, second: bool) -> None:
    record, forged = forge(second=second)
    data = squeeze(make_record(0, b"x" * 5000)) + squeeze(record, level=level) + squeeze(make_record(2, b"y" * 5000))
    place = data.find(forged[:64])
    assert place > 0, "deflate did not store the page as it is: there is nothing to be fooled by"
    assert data[place - 4 : place] == len(record).to_bytes(4, "little"), "the trap is set"
    found = scan(data)
    assert places(found) == places(strict(data))
    assert [uri for _, _, uri in places(found)] == [b"http://site.example/%d" % number for number in range(3)]
    assert not damages(found)


@pytest.mark.parametrize("padding", [0, 1, 3, 4, 5000])
def test_a_forged_record_in_the_last_member_is_seen_through_behind_padding_too(padding: int) -> None:
    record, _ = forge()
    data = squeeze(record) + b"\0" * padding
    assert places(scan(data)) == places(strict(data)) == [(0, len(data) - padding, b"http://site.example/1")]


def test_the_next_place_that_fits_would_have_been_the_forged_one() -> None:
    """The negative control: the rule that looks only at the next fitting place does fall for this file."""
    record, forged = forge()
    data = squeeze(record) + squeeze(make_record(2, b"y" * 5000))
    fits = data.find(len(record).to_bytes(4, "little") + b"\x1f\x8b\x08") + 4
    assert data[fits : fits + 64] == forged[:64]
    assert BANK.encode() in zlib.decompressobj(31).decompress(data[fits:], 1000)


# --- the same as the strict reader ----------------------------------------------------------------------------------

bodies = st.one_of(
    st.integers(0, 30_000).map(lambda size: NOISE[:size]),
    st.integers(0, 60_000).map(lambda size: b"<p>text</p>\n" * (size // 12)),
    st.integers(1, 5).map(lambda count: b"".join(squeeze(make_record(n, NOISE[:3000])) for n in range(count))),
    st.just(squeeze(make_record(99, NOISE[:9000]), level=0)),
)
records = st.builds(
    make_record,
    st.integers(0, 9),
    bodies,
    kind=st.sampled_from(["response", "request", "metadata", "resource"]),
    extra=st.sampled_from(
        [
            *(
                "",
                "X-Odd:  spaced \r\n",
                "warc-date: 1\r\n",
                f"X-Long: {'z' * 80_000}\r\n",
                "WARC-Protocol: h2\r\n" * 2,
            ),
            *("Content-Length: 7\r\n", " folded: x\r\n", "X-Lf: a\nX-More: b\r\n", "no colon\r\n"),
        ]
    ),
    end=st.sampled_from([b"\r\n\r\n"] * 6 + [b"", b"\r\n", b"\n\n"]),
)
members = st.builds(
    squeeze,
    records,
    level=st.sampled_from([0, 1, 6, 9]),
    name=st.booleans(),
    flush_every=st.sampled_from([0, 0, 0, 100, 5000]),
)
others = st.sampled_from([b"\0" * 512, b"junk", b"\x1f\x8b", b"\r\n", make_record(7, b"plain" * 900), squeeze(b"")])


class Archive(bytes):
    def __repr__(self) -> str:
        return f"<an archive of {len(self)} bytes>"


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    return Archive(b"".join(draw(st.lists(st.one_of(members, members, members, others), max_size=6))))


@settings(deadline=None, max_examples=examples(300))
@given(data=archives(), enough=st.booleans())
def test_a_scan_sees_what_the_strict_reader_reads(data: bytes, *, enough: bool) -> None:
    found, read = scan(data, enough=enough), strict(data)
    plain = {item.offset for item in read if isinstance(item, Record) and data[item.offset] == ord("W")}
    assert [place[::2] for place in places(found)] == [place[::2] for place in places(read)]
    for (offset, length, _), (_, whole, _) in zip(places(found), places(read), strict=True):
        assert length == whole or (offset in plain and whole - length in (2, 4))  # without its empty lines
    assert [one for one in damages(found) if one.reason not in HARMLESS] == [
        one for one in damages(read) if one.reason not in HARMLESS
    ]
    assert places(scan(data, verify=True)) == places(found)


@settings(deadline=None, max_examples=examples(300))
@given(archives(), st.data())
def test_verifying_gives_the_same_and_names_what_a_glimpse_cannot_see(data: bytes, draw: st.DataObject) -> None:
    unhurt = {place[::2] for place in places(strict(data))}  # after damage the strict reader may pass some of them
    if data:
        at = draw.draw(st.integers(0, len(data) - 1))
        data = data[:at] + bytes([data[at] ^ 1 << draw.draw(st.integers(0, 7))]) + data[at + 1 :]
    quick, checked = scan(data), scan(data, verify=True)
    assert places(checked) == places(quick)
    assert set(damages(quick)) <= set(damages(checked))
    read = strict(data)
    named = [(one.offset, one.end) for one in damages(checked)]
    good = {place[::2] for place in places(read)}
    for offset, length, uri in places(quick):
        assert (offset, uri) in good | unhurt or (offset, offset + length) in named, "a bad body that nobody named"


@settings(deadline=None, max_examples=60)
@given(archives(), st.data())
def test_a_cut_file_gives_the_same_as_the_strict_reader(data: bytes, draw: st.DataObject) -> None:
    data = data[: draw.draw(st.integers(0, len(data)))]
    assert [place[::2] for place in places(scan(data))] == [place[::2] for place in places(strict(data))]


def test_neighbours_of_the_same_size_are_told_apart_by_inflating() -> None:
    data = b"".join(squeeze(make_record(number, NOISE[number : number + 20_000])) for number in range(8))
    assert places(scan(data)) == places(strict(data))


def test_a_body_of_any_size_is_found() -> None:
    data = squeeze(make_record(1, b"a" * (24 << 20)), level=1) + squeeze(make_record(2, NOISE + NOISE))
    assert places(scan(data)) == places(strict(data))


# --- what verify and torn add ---------------------------------------------------------------------------------------


def test_a_glimpse_does_not_read_bodies_and_verify_does() -> None:
    """Also the control that bodies are left alone: their damage goes unseen."""
    member = bytearray(squeeze(make_record(1, NOISE[:50_000]), level=0))
    member[30_000] ^= 1
    data = bytes(member) + squeeze(make_record(2, b"x"))
    assert not damages(scan(data))
    assert [(one.offset, one.reason) for one in damages(scan(data, verify=True))] == [(0, "bad_crc")]


@pytest.mark.parametrize("size", [10, 50_000])
def test_verify_compares_digests(size: int) -> None:
    wrong = "WARC-Block-Digest: sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n"
    data = squeeze(make_record(1, NOISE[:size], extra=wrong)) + squeeze(make_record(2, b"x"))
    assert [one.reason for one in damages(scan(data, verify=True))] == ["bad_digest"]
    assert places(scan(data, verify=True)) == places(scan(data))


@pytest.mark.parametrize("compress", [squeeze, bytes])
def test_a_torn_record_is_sighted_only_on_request(compress: type[bytes]) -> None:
    first, last = compress(make_record(1, NOISE[:9000])), compress(make_record(2, NOISE[:9000]))
    data = first + last[:-100]
    assert [uri for _, _, uri in places(scan(data))] == [b"http://site.example/1"]
    found = scan(data, torn=True)
    assert places(found)[1:] == [(len(first), len(last) - 100, b"http://site.example/2")]
    assert damages(found) == damages(scan(data)) != []


def test_records_behind_a_torn_one_are_not_lost() -> None:
    lying = make_record(1, b"short").replace(b"Content-Length: 5", b"Content-Length: 9999")
    data = squeeze(lying) + squeeze(make_record(2, b"x"))
    uris = [uri for _, _, uri in places(scan(data, torn=True))]
    assert uris == [b"http://site.example/1", b"http://site.example/2"]


# --- heads ----------------------------------------------------------------------------------------------------------

head_lines = st.lists(
    st.tuples(
        st.sampled_from(["WARC-Type", "warc-type", "Content-Length", "WARC-Target-URI", "X-A", "X-B", " X", ""]),
        st.sampled_from([": ", ":", ":  ", ":\t", ""]),
        st.sampled_from(["5", "7", "response", "http://a/", "a: b", "", " ", "x ", "é", "a\nb: c", "a\rb", "WARC/1.0"]),
        st.sampled_from(["\r\n"] * 5 + ["\n"]),
    ),
    max_size=6,
).map(lambda lines: "".join("".join(line) for line in lines))


@settings(deadline=None, max_examples=examples(500))
@given(st.lists(head_lines, min_size=1, max_size=6))
def test_a_head_read_by_its_shape_says_what_the_strict_reader_says(heads: list[str]) -> None:
    reader = WarcHeadReader(limits=WarcLimits())
    for lines in [*heads, *heads]:
        start = f"WARC/1.0\r\n{lines}Content-Length: 5\r\nWARC-Type: resource\r\n\r\nblock\r\n\r\n".encode()
        read = [item for item in strict(start) if isinstance(item, Record) and item.offset == 0]
        found = reader.read(start)
        if read:
            assert found is not None
            assert found[0] == known_fields(read[0].headers)
            assert found[2] == read[0].content_length


def test_only_the_first_value_of_a_repeated_field_counts() -> None:
    headers = Headers([("warc-TYPE", "a"), ("WARC-Type", "b"), ("X-Other", "c")])
    assert known_fields(headers) == {b"WARC-Type": b"a"}


# --- a checksum of the stored bytes -----------------------------------------------------------------------------------


def flip(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def said(data: bytes, **options: bool) -> list[tuple[object, ...]]:
    """What a scan says of the records: what an index makes its lines of."""
    return [
        (item.offset, item.length, item.fields, item.block[:60])
        for item in scan(data, **options)
        if isinstance(item, ScannedRecord)
    ]


def silent_flips(members: list[bytes], *, bits: int) -> list[int]:
    """Return the bits of the second member whose flip changes what is said without any damage being told."""
    data, begin = b"".join(members), 8 * len(members[0])
    dice, whole = random.Random(bits), said(b"".join(members))
    chosen = [*range(8 * 60), *(dice.randrange(8 * len(members[1])) for _ in range(bits))]
    flipped = [(bit, flip(data, begin + bit)) for bit in chosen]
    return [bit for bit, data in flipped if said(data) != whole and not damages(scan(data))]


def members_with_a_large_one(*, marked: bool, level: int = 0) -> list[bytes]:
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + NOISE[:1500].hex().encode()
    members = [squeeze(make_record(number, page), level=level) for number in range(3)]
    assert len(members[1]) > 1536, "a small member is inflated whole"
    return [add_checksum(member) for member in members] if marked else members


@pytest.mark.parametrize("level", [0, 1, 6])
def test_no_flipped_bit_of_a_member_with_a_checksum_changes_a_record_unseen(level: int) -> None:
    assert silent_flips(members_with_a_large_one(marked=True, level=level), bits=examples(2000)) == []


def test_a_small_member_is_not_taken_for_the_end_of_the_one_before() -> None:
    """Their lengths are the same, and the magic of the second is lost."""
    members = [squeeze(make_record(number, b"small")) for number in range(3)]
    assert silent_flips(members, bits=examples(2000)) == []


def test_without_the_checksum_a_flipped_bit_goes_unseen() -> None:
    """The negative control: that is what the checksum is for."""
    assert silent_flips(members_with_a_large_one(marked=False), bits=examples(2000))


def test_a_scan_that_checks_crcs_names_every_damage() -> None:
    members = members_with_a_large_one(marked=False)
    data, begin = b"".join(members), 8 * len(members[0])
    assert not damages(scan(data, check_crc=True))
    for bit in silent_flips(members, bits=examples(2000)):
        assert scan(flip(data, begin + bit)) != scan(data)
        found = damages(scan(flip(data, begin + bit), check_crc=True))
        assert [one.end for one in found] == [len(members[0]) + len(members[1])]
