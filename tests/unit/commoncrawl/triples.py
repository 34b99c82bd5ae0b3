"""Small WARC, WAT and WET files in Common Crawl's layout, and where each page's records lie in them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from webmill.commoncrawl.aligned import read_pages
from webmill.commoncrawl.page import ErrorDocument, Page
from webmill.formats.warc import record_headers as records
from webmill.formats.warc.typed_records import FileType
from webmill.formats.warc.writer import compress_record, encode_record
from webmill.model import Headers

WARC, WAT, WET = FileType.WARC, FileType.WAT, FileType.WET
CRAWL = datetime(2024, 7, 12, 10, tzinfo=UTC)
CLD2 = (
    '{"reliable":true,"text-bytes":90,"languages":'
    '[{"code":"de","code-iso-639-3":"deu","text-covered":0.99,"score":9.0,"name":"GERMAN"}]}'
)


@dataclass(frozen=True)
class Spec:
    """One page to be made."""

    name: str
    uri: str = ""
    kind: str = "text/html"
    body: str = "<html><title>Title of {0}</title><body>Body of {0}<a href=/next></a>"
    text: str | None = "Title of {0}\nBody of {0}"
    request: bool = True
    metadata: bool = True
    extra: tuple[tuple[str, str], ...] = ()  # fields of the response record
    languages: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        return self.uri or f"https://example.org/{self.name}"


@dataclass
class Triple:
    warc: bytes = b""
    wat: bytes = b""
    wet: bytes = b""
    places: dict[str, dict[FileType, list[tuple[int, int]]]] = field(default_factory=dict)  # by page

    def of(self, file_type: FileType) -> bytes:
        return {WARC: self.warc, WAT: self.wat, WET: self.wet}[file_type]

    def replacing(self, file_type: FileType, data: bytes) -> Triple:
        files = {WARC: self.warc, WAT: self.wat, WET: self.wet, file_type: data}
        return Triple(files[WARC], files[WAT], files[WET], self.places)

    def damaged_by(self, file_type: FileType, start: int, end: int) -> set[str]:
        """The pages that have a record in `[start, end)`."""
        return {
            name
            for name, files in self.places.items()
            if any(begin < end and stop > start for begin, stop in files.get(file_type, []))
        }

    def read(self) -> list[Page | ErrorDocument]:
        return list(read_pages(io.BytesIO(self.warc), io.BytesIO(self.wat), io.BytesIO(self.wet)))

    def resumed(self, resume: dict[FileType, int]) -> list[Page | ErrorDocument]:
        warc, wat, wet = (io.BytesIO(self.of(kind)[resume[kind] :]) for kind in (WARC, WAT, WET))
        return list(read_pages(warc, wat, wet, start=resume))


def record_id(name: str) -> str:
    return f"<urn:uuid:{name}>"


class Writer:
    """Writes a triple, record by record; `encode` makes it compressed or plain."""

    def __init__(self, encode: Callable[[Headers, bytes], bytes] = compress_record) -> None:
        self.files: dict[FileType, bytearray] = {kind: bytearray() for kind in FileType}
        self.places: dict[str, dict[FileType, list[tuple[int, int]]]] = {}
        self.encode = encode

    def put(self, file_type: FileType, page: str, headers: Headers, content: bytes) -> tuple[int, int]:
        file = self.files[file_type]
        start = len(file)
        file += self.encode(headers, content)
        self.places.setdefault(page, {}).setdefault(file_type, []).append((start, len(file)))
        return start, len(file)

    def begin(self) -> None:
        for file_type in FileType:
            content = records.encode_warc_fields([("isPartOf", "TEST"), ("format", "WARC File Format 1.1")])
            name = record_id(f"info-{file_type}")
            headers = records.warcinfo_headers(
                records.describe_block(content), record_id=name, date=CRAWL, filename="test.warc.gz"
            )
            place = self.put(file_type, "warcinfo", headers, content)
            if file_type is WARC:
                described = headers, place
        headers, place = described
        self.describe("warcinfo", headers, place, {"WARC-Info-Metadata": {"isPartOf": "TEST"}}, uri="test.warc.gz")

    def describe(
        self, page: str, headers: Headers, place: tuple[int, int], payload: dict[str, object], *, uri: str = ""
    ) -> None:
        content = json.dumps(describing(headers, place, payload)).encode()
        about = headers.get("WARC-Record-ID") or ""
        made = records.wat_headers(
            records.describe_block(content),
            record_id=record_id(f"wat-{about[10:-1]}"),
            uri=uri or headers.get("WARC-Target-URI") or "",
            date=CRAWL,
            refers_to=about,
        )
        self.put(WAT, page, made, content)

    def page(self, spec: Spec, number: int) -> None:
        visit = records.CaptureEvent(
            uri=spec.target, date=CRAWL + timedelta(seconds=number), ip="192.0.2.1", protocols=("h2", "tls/1.3")
        )
        if spec.request:
            self._request(spec, visit)
        self._response(spec, visit)
        if spec.metadata:
            self._metadata(spec, visit)
        if spec.text is not None:
            self._text(spec, visit)

    def _request(self, spec: Spec, visit: records.CaptureEvent) -> None:
        content = b"GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: test\r\n\r\n"
        headers = records.request_headers(
            visit, records.describe_block(content), record_id=record_id(f"req-{spec.name}")
        )
        place = self.put(WARC, spec.name, headers, content)
        self.describe(spec.name, headers, place, {"HTTP-Request-Metadata": {"Request-Message": {"Method": "GET"}}})

    def _response(self, spec: Spec, visit: records.CaptureEvent) -> None:
        content = f"HTTP/1.1 200 OK\r\nContent-Type: {spec.kind}\r\n\r\n{spec.body.format(spec.name)}".encode()
        headers = records.response_headers(
            visit,
            records.describe_http_block(content),
            record_id=record_id(f"res-{spec.name}"),
            concurrent_to=record_id(f"req-{spec.name}") if spec.request else None,
            payload_type=spec.kind,
        ).with_added(*spec.extra)
        place = self.put(WARC, spec.name, headers, content)
        html = {"Head": {"Title": f"Title of {spec.name}"}, "Links": [{"path": "A@/href", "url": "/next"}]}
        self.describe(spec.name, headers, place, {"HTTP-Response-Metadata": {"HTML-Metadata": html}})

    def _metadata(self, spec: Spec, visit: records.CaptureEvent) -> None:
        fields = [("fetchTimeMs", "56"), ("charset-detected", "UTF-8"), ("languages-cld2", CLD2)]
        content = records.encode_warc_fields(fields)
        headers = records.metadata_headers(
            visit,
            records.describe_block(content),
            record_id=record_id(f"met-{spec.name}"),
            concurrent_to=record_id(f"res-{spec.name}"),
        )
        place = self.put(WARC, spec.name, headers, content)
        listed = [{"Name": name, "Value": value} for name, value in fields]
        self.describe(spec.name, headers, place, {"WARC-Metadata-Metadata": {"Metadata-Records": listed}})

    def _text(self, spec: Spec, visit: records.CaptureEvent) -> None:
        content = (spec.text or "").format(spec.name).encode()
        headers = records.conversion_headers(
            records.describe_block(content),
            record_id=record_id(f"wet-{spec.name}"),
            uri=spec.target,
            date=visit.date,
            refers_to=record_id(f"res-{spec.name}"),
            languages=spec.languages,
        )
        self.put(WET, spec.name, headers, content)

    def triple(self) -> Triple:
        return Triple(*(bytes(self.files[kind]) for kind in (WARC, WAT, WET)), self.places)


def describing(headers: Headers, place: tuple[int, int], payload: dict[str, object]) -> dict[str, object]:
    """What ia-web-commons writes about a record, in short."""
    fields: dict[str, object] = {}
    for name, value in headers.pairs:
        values = headers.get_all(name)
        fields[name] = value if len(values) == 1 else values
    container = {"Offset": str(place[0]), "Gzip-Metadata": {"Deflate-Length": str(place[1] - place[0])}}
    return {"Container": container, "Envelope": {"WARC-Header-Metadata": fields, "Payload-Metadata": payload}}


def make_triple(specs: Iterable[Spec], *, encode: Callable[[Headers, bytes], bytes] = compress_record) -> Triple:
    writer = Writer(encode)
    writer.begin()
    for number, spec in enumerate(specs):
        writer.page(spec, number)
    return writer.triple()


def make_plain(specs: Iterable[Spec]) -> Triple:
    return make_triple(specs, encode=encode_record)


def names(results: Iterable[Page | ErrorDocument]) -> list[str]:
    """The pages that came out whole, by name."""
    return [(page.record_id or "")[len("<urn:uuid:res-") : -1] for page in results if isinstance(page, Page)]


def errors(results: Iterable[Page | ErrorDocument]) -> list[ErrorDocument]:
    return [item for item in results if isinstance(item, ErrorDocument)]


def pages(results: Iterable[Page | ErrorDocument]) -> Iterator[Page]:
    return (item for item in results if isinstance(item, Page))


PDF = Spec("pdf", kind="application/pdf", body="%PDF-1.4 {0}", text=None)
EMPTY = Spec("empty", body="", text=None)
HEADLESS = Spec("headless", body="<html><head><script>var a = 'text'", text=None)
MIXED = (
    Spec("a"),
    PDF,
    Spec("b"),
    Spec("c", metadata=False),
    Spec("d", request=False),
    EMPTY,
    HEADLESS,
    Spec("e", languages=("eng", "fra")),
    Spec("twin1", uri="https://example.org/twin"),
    Spec("twin2", uri="https://example.org/twin"),
    Spec("f"),
)
