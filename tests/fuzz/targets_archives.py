"""What is made of archives and indexes: index lines, derived records, pages, packages, messages of captures."""

from __future__ import annotations

import io
import json
import zipfile

from tests.fuzz.target import Target, drain, each
from tests.fuzz.targets_formats import FIELDS, LINE, PAGE, WARC
from webmill.archive.capture import read_capture
from webmill.archive.derive_wat import describe_record
from webmill.archive.derive_wet import WetConverter
from webmill.archive.identify import identify_media_type
from webmill.commoncrawl.aligned import read_pages
from webmill.commoncrawl.batch import decode_batch, encode_batch
from webmill.commoncrawl.grammar import check_file
from webmill.commoncrawl.page import Page
from webmill.commoncrawl.selection import Selection, filter_block
from webmill.compat.index_record import decode, encode, make_index_record
from webmill.errors import BadInput, WebmillError
from webmill.formats import wacz
from webmill.formats.cdx.cdxj import json_of, parse
from webmill.formats.compression import zip_members
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.scan import ScanOptions, scan_records
from webmill.formats.warc.typed_records import FileType
from webmill.formats.warc.wat import read_wat
from webmill.index.build.captures import CaptureIndexer, CaptureOptions
from webmill.index.build.request_body import MAX_REQUEST_QUERY, body_to_query
from webmill.index.cdxj.blocklist import parse_blocklist
from webmill.index.columnar.columns import row_of
from webmill.model import Record


def warc(kind: bytes, block: bytes, content_type: bytes = b"application/http; msgtype=response") -> bytes:
    return (
        b"WARC/1.0\r\nWARC-Type: %b\r\nWARC-Record-ID: <urn:uuid:%d>\r\nWARC-Concurrent-To: <urn:uuid:8>\r\n"
        b"WARC-Date: 2024-01-01T00:00:00Z\r\nWARC-Target-URI: http://example.com/\r\n"
        b"Content-Type: %b\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n" % (kind, len(kind), content_type, len(block), block)
    )


GROUP = (
    warc(b"warcinfo", b"software: a\r\n", b"application/warc-fields")
    + warc(b"request", b'POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"a":1}')
    + warc(b"response", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + PAGE)
    + warc(b"metadata", FIELDS, b"application/warc-fields")
)
BATCH = encode_batch([LINE.replace(b'"mime"', b'"filename": "a.gz", "offset": "1", "length": "2", "mime"')])
WANTED = Selection(statuses=("200",), languages=("eng",), mimes=("text/html",), url_regex="a", sample=0.5, digests=True)
BODIES = (
    b'application/json\n{"a": [1, {"b": null}], "c": 1.5}',
    b'multipart/form-data; boundary=x\n--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--x--\r\n',
    b"application/x-www-form-urlencoded\na=b&c=%20",
)
LISTED = (
    b'{"resources": [{"path": "archive/a.warc.gz", "hash": "sha256:%b", "bytes": 7}, {"path": "b", "hash": "md5:0"}], '
    b'"path": "datapackage.json", "hash": "sha256:0"}' % (b"0" * 64)
)


def take_index(data: bytes) -> None:
    """Every line of an index is one, whatever is archived."""
    for verify in (False, True):
        captures = CaptureIndexer(filename="a.warc.gz", options=CaptureOptions(post_append=True, all_records=True))
        found = scan_records(io.BytesIO(data), enough=captures.enough, scan=ScanOptions(verify=verify, torn=True))
        for line in captures.lines(found):
            if isinstance(line, bytes):
                assert line.count(b"\n") == 1
                parse(line)


def take_derived(data: bytes) -> None:
    """What we write about a record is a WAT description that can be read."""
    waiting = WetConverter()
    for item in read_records(io.BytesIO(data)):
        if isinstance(item, Record):
            capture = read_capture(item)
            waiting.add(capture)
            try:
                read_wat(describe_record(capture, filename="a.warc.gz", frame=None))
            except BadInput:
                pass


def take_pages(data: bytes) -> None:
    """Three files in one: what is behind a line of dashes is the WAT, then the WET."""
    parts = [io.BytesIO(part) for part in data.split(b"\n---\n", 2)]
    for page in read_pages(*parts, filename="a"):
        if isinstance(page, Page):
            try:
                record = make_index_record(page)
                assert decode(encode(record)) == record
            except WebmillError:
                pass


def take_grammar(data: bytes) -> None:
    for kind in FileType:
        drain(check_file(io.BytesIO(data), file_type=kind))


def take_package(data: bytes) -> None:
    """Lines of a package: each is one line, and what it says can be read."""
    capture = parse(data)
    wacz.is_page(capture)
    lines = (
        wacz.encode_page_line(capture, number=1, title="A page", text="Its text."),
        json_of(wacz.encode_summary_line(data, offset=1, block=b"x")),
    )
    for line in lines:
        assert line.count(b"\n") == 1
        json.loads(line)


def take_zip(data: bytes) -> None:
    """Members do not overlap, and have the length that they say; one that is wrong says nothing about the next."""
    file, before = io.BytesIO(data), 0
    for member in zip_members.read_directory(file, size=len(data)):
        assert before <= member.start <= member.limit <= len(data)
        before = member.limit
        try:
            assert len(zip_members.read_member(file, member, most=1 << 20)) == member.size
            part = zip_members.ZipMemberFile(file, member)
            zip_members.read_directory(part, size=part.size)
        except BadInput:
            pass


def take_listed(data: bytes) -> None:
    """What a package lists can be compared with any file."""
    for path, listed in wacz.read_package(data).items():
        wacz.is_archive(path)
        try:
            listed.check(size=1, hexdigest="0")
        except BadInput:
            pass
    try:
        wacz.check_digest(data, data)
    except BadInput:
        pass


def zipped(method: int) -> bytes:
    """With a ZIP file in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        file.writestr(zipfile.ZipInfo("archive/a.warc"), GROUP, method)
        file.writestr(zipfile.ZipInfo("in.wacz"), b"PK\5\6" + bytes(18), zipfile.ZIP_STORED)
        file.comment = b"words"
    return out.getvalue()


def take_body(data: bytes) -> None:
    kind, _, body = data.partition(b"\n")
    assert len(body_to_query("POST", kind.decode("latin-1"), body)) <= MAX_REQUEST_QUERY


def take_blocklist(data: bytes) -> None:
    parse_blocklist(data.splitlines(keepends=True)[:50]).partition([LINE])


TARGETS = (
    Target("index", take_index, (WARC, GROUP), "warc"),
    Target("derive", take_derived, (GROUP,), "warc"),
    Target("pages", take_pages, (GROUP, GROUP + b"\n---\n" + WARC + b"\n---\n" + WARC), "warc"),
    Target("grammar", take_grammar, (GROUP,), "warc"),
    Target("wacz", take_package, (LINE,), "lines"),
    Target("wacz-list", take_listed, (LISTED,)),
    Target("zip", take_zip, (zipped(zipfile.ZIP_STORED), zipped(zipfile.ZIP_DEFLATED))),
    Target(
        "columns", row_of, (LINE.replace(b'"mime"', b'"filename": "a", "offset": 1, "length": 2, "mime"'),), "lines"
    ),
    Target("sift", lambda data: filter_block(data, WANTED), (LINE, LINE + LINE.replace(b'"200"', b"200")), "lines"),
    Target("batch", decode_batch, (BATCH,)),
    Target("body", take_body, BODIES),
    Target("blocklist", take_blocklist, (b"^com,example\\)/a\n# no\nx(a|b)*\\<y\\>$\n[[:alpha:]]+\n",)),
    Target(
        "identify",
        each(lambda data: identify_media_type(data, None), lambda data: identify_media_type(data, "text/html")),
        (PAGE,),
        "pages",
    ),
)
