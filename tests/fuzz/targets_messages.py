"""Messages, files of the frontier, and what servers answer: as we wrote them, damaged, or somebody else's."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import urllib3
import urllib3.exceptions

from tests.fuzz.target import Target, drain, each
from webmill.boards.jobs import parse_job
from webmill.crawl.frontier.backup import read_manifest
from webmill.crawl.frontier.framed_file import HEAD, MAGIC, read_frames
from webmill.crawl.frontier.url_queue_files import decode_lines, encode_line
from webmill.crawl.scheduler.inbox import InboxMessage, ShardMessages
from webmill.formats.http import Http2Client, ResponseFramer, split_response
from webmill.infra.queue.sqs_messages import decode_message
from webmill.infra.storage.http_answers import ReadRequest, parse_date, resolve_redirect
from webmill.model import Link
from webmill.pipeline.dataset.config import load_dataset
from webmill.publish.types import Commit, Pointer, decode

JOB = (
    b'{"run":"boards-1","deadline":"2024-01-01T00:00:00Z","board":{"source":"a/b","board":"b","url":"http://a.example/",'
    b'"facets":{"x":"y"},"selectors":{"item":"li"}}}'
)
POINTER = (
    b'{"version":"00000001-0123abcd","sequence":1,"updated_at":"2024-01-01T00:00:00Z","count":3,'
    b'"manifest_sha256":"' + b"0" * 64 + b'","manifest_bytes":9}'
)
BACKUP = (
    b'{"format":1,"backend":"local","version":1,"files":{},"facts":{},"stats":{"waiting":1,"in_hand":0,"visited":1,'
    b'"pages":1,"revisits":0,"domains":1,"domains_waiting":1,"domains_in_hand":0,"expired":0}}'
)
DATASET = b'name = "a"\n[read]\nfrom = "crawl-data"\n[make]\ndocument = "page"\n[write]\nto = "out"\nformat = "jsonl"\n'
FRAMES = MAGIC + HEAD.pack(3, 0x352441C2) + b"abc"
ANSWER = (
    b'HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-4/9\r\nContent-Length: 3\r\nETag: "x"\r\n'
    b"Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\nLocation: /there\r\n\r\n"
)
HTTP2 = (
    b"\xff\0\0\x06\4\0\0\0\0\0\0\1\0\0\x10\0"  # SETTINGS
    b"\0\0\x0b\1\4\0\0\0\1\x88\x40\1x\3abc\x5c\1\x35\0\0\5\0\1\0\0\0\1hello"
    b"\0\0\2\1\4\0\0\0\3\x88\xbe\0\0\5\0\1\0\0\0\3hello"
)
SQS = b'{"Body":"a","MessageAttributes":{"webmill-attempts":"2","webmill-delay":"1e3"},"Attributes":{}}'


class OneMessage:
    """An inbox that holds it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def publish(self, bodies: Sequence[bytes]) -> None: ...

    def read(self, count: int) -> list[InboxMessage]:
        return [InboxMessage("1", self._body)]

    def delete(self, messages: Sequence[InboxMessage]) -> None: ...

    def is_empty(self) -> bool:
        return False

    def close(self) -> None: ...


def receive_message(data: bytes) -> None:
    messages = ShardMessages([Path("inbox")], 0, open_inbox=lambda _: OneMessage(data))
    messages.receive_links()
    messages.received_commands()


def take_frames(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        drain(read_frames(Path(file.name)))


def take_backup(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "manifest.json").write_bytes(data)
        read_manifest(Path(folder), backend="local", version=1)


def take_dataset(data: bytes) -> None:
    for suffix in (".toml", ".json"):
        with tempfile.NamedTemporaryFile(suffix=suffix) as file:
            file.write(data)
            file.flush()
            each(lambda _, name=file.name: load_dataset(Path(name)))(data)  # type: ignore[misc]


def take_answer(data: bytes) -> None:
    """What a server says that we read ranges from."""
    head = split_response(data).head
    if head is None:
        return
    try:
        answer = urllib3.HTTPResponse(status=head.status, headers=[*head.headers.pairs])  # type: ignore[arg-type]
    except urllib3.exceptions.HTTPError:
        return  # so it is not even an answer
    parse_date(head.headers.get("Retry-After"))
    each(
        lambda _: resolve_redirect("https://a.example/b", head.headers.get("Location") or ""),
        lambda _: ReadRequest(key="k", start=2, length=3, etag='"x"').check(answer),
        lambda _: ReadRequest(key="k", start=0, length=None, etag=None).check(answer),
    )(data)


def take_http2(data: bytes) -> None:
    """Two answers over one connection; the first byte says in what pieces they come."""
    size = 1 + (data[0] if data else 0) * 50
    client, framer = Http2Client(), ResponseFramer(method="GET")
    for start in range(0, len(data) - 1, size):
        if client.is_reusable:
            client.encode_request([(b":method", b"GET"), (b":path", b"/")])
            framer = ResponseFramer(method="GET")
        text = client.receive(data[1:][start : start + size])
        client.take_outgoing()
        each(lambda _, text=text, framer=framer: framer.feed(text))(data)  # type: ignore[misc]


def take_sqs(data: bytes) -> None:
    """SQS gives attributes in this form, whoever wrote them."""
    try:
        stated = msgspec.json.decode(data, type=dict[str, str | dict[str, str]])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    body, attributes, system = stated.get("Body", ""), stated.get("MessageAttributes"), stated.get("Attributes")
    message: dict[str, Any] = {"ReceiptHandle": "r", "MessageId": "m", "Body": body}
    if isinstance(attributes, dict):
        message["MessageAttributes"] = {name: {"StringValue": value} for name, value in attributes.items()}
    if isinstance(system, dict):
        message["Attributes"] = system
    decode_message(message).next("again")


TARGETS = (
    Target("board-job", parse_job, (JOB,)),
    Target(
        "pointer",
        each(*(lambda data, kind=kind: decode(data, kind, source="s") for kind in (Pointer, Commit))),
        (POINTER,),
    ),
    Target(
        "crawl-letter",
        receive_message,
        (msgspec.msgpack.encode([Link("http://a.example/", depth=1)]), b"\x81\xa4type\xa7compact"),
    ),
    Target("frontier-frames", take_frames, (FRAMES,)),
    Target("frontier-lines", lambda data: drain(decode_lines(data)), (encode_line(b"http://a.example/", 3) * 2,)),
    Target("frontier-backup", take_backup, (BACKUP,)),
    Target("dataset", take_dataset, (DATASET,)),
    Target("storage-answer", take_answer, (ANSWER,)),
    Target("http2", take_http2, (HTTP2,)),
    Target("sqs-message", take_sqs, (SQS,)),
)
