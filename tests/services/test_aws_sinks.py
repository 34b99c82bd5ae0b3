"""Documents and errors to SQS and Kinesis, on a real server; and what Amazon may answer."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.pipeline.datasets import create, lines_of, run, views, write_files, write_triple
from tests.services.aws_front import Forward, Front, Request, fronting
from tests.unit.cli.command import webmill
from tests.unit.commoncrawl.triples import Spec, make_triple
from webmill.errors import BadInput, Misconfigured, Unavailable
from webmill.infra.retry import BackoffPolicy
from webmill.infra.sinks.base import Sink, SinkRow
from webmill.infra.sinks.kinesis import KinesisSink
from webmill.infra.sinks.sqs import ATTRIBUTE, SqsSink
from webmill.pipeline.dataset.folder import DatasetFolder
from webmill.pipeline.extract.resources import id_of

pytestmark = pytest.mark.server("aws")

HURRY = BackoffPolicy(attempts=3, first_wait=0.01, longest_wait=0.01)
WRITE: dict[str, object] = {"pages_per_part": 8}
KINDS = ["sqs", "sqs.fifo", "kinesis"]


class Amazon:
    """Queues and streams of one server, and all that is in them."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        keys = {"aws_access_key_id": "dummy", "aws_secret_access_key": "dummy", "region_name": "us-east-1"}
        options = {"endpoint_url": endpoint, "config": Config(proxies={}), **keys}
        self.sqs: Any = boto3.session.Session().client("sqs", **options)
        self.kinesis: Any = boto3.session.Session().client("kinesis", **options)

    def make(self, kind: str, **attributes: str) -> str:
        """The address of a new one."""
        name = f"t{secrets.token_hex(6)}"
        if kind == "kinesis":
            self.kinesis.create_stream(StreamName=name, ShardCount=2)
        elif kind == "sqs.fifo":
            name = f"{name}.fifo"
            self.sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true", **attributes})
        else:
            self.sqs.create_queue(QueueName=name, Attributes=attributes)
        return self.address(kind, name)

    def address(self, kind: str, name: str) -> str:
        return f"{kind.removesuffix('.fifo')}://KEY:SECRET@{name}?region=us-east-1&endpoint={self.endpoint}"

    def take(self, address: str) -> list[tuple[str, bytes]]:
        """Ids and bodies."""
        name = address.partition("@")[2].partition("?")[0]
        return list(self._records(name) if address.startswith("kinesis") else self._messages(name))

    def _messages(self, name: str) -> Iterator[tuple[str, bytes]]:
        url = self.sqs.get_queue_url(QueueName=name)["QueueUrl"]
        wanted = {"MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}
        while messages := self.sqs.receive_message(QueueUrl=url, **wanted).get("Messages"):
            for message in messages:
                id_ = message["MessageAttributes"][ATTRIBUTE]["StringValue"]
                if name.endswith(".fifo"):
                    assert message["Attributes"]["MessageDeduplicationId"] == id_
                yield id_, message["Body"].encode()
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def _records(self, name: str) -> Iterator[tuple[str, bytes]]:
        for shard in self.kinesis.list_shards(StreamName=name)["Shards"]:
            place: str | None = self.kinesis.get_shard_iterator(
                StreamName=name, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            while place and (records := (answer := self.kinesis.get_records(ShardIterator=place))["Records"]):
                yield from ((record["PartitionKey"], record["Data"]) for record in records)
                place = answer.get("NextShardIterator")


@pytest.fixture(scope="module")
def amazon(aws_url: str) -> Iterator[Amazon]:
    amazon = Amazon(aws_url)
    yield amazon
    amazon.sqs.close()
    amazon.kinesis.close()


@pytest.fixture
def front() -> Iterator[Front]:
    with fronting() as front:
        yield front


def open_sink(address: str, front: Front | None = None) -> Sink:
    address += f"&proxy={front.url}" if front else ""
    if address.startswith("sqs"):
        return SqsSink(address, patience=HURRY)
    return KinesisSink(address, id_of=id_of, patience=HURRY)


def deliver(address: str, rows: list[SinkRow], front: Front | None = None) -> None:
    sink = open_sink(address, front)
    try:
        sink.deliver("batch", rows)
    finally:
        sink.close()


def rows_of(*values: object) -> list[SinkRow]:
    return [SinkRow(value, json.dumps(value).encode()) for value in values]


def expected(tmp_path: Path, lines: list[str], source: Path) -> list[bytes]:
    """What a dataset in files has, line by line."""
    calm = create(tmp_path / "calm", lines, source=source)
    run(calm)
    return sorted(json.dumps(document).encode() for document in lines_of(calm.path / "output"))


def normal(bodies: list[bytes]) -> list[bytes]:
    return sorted(json.dumps(json.loads(body)).encode() for body in bodies)


# --- datasets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_document_arrives(tmp_path: Path, amazon: Amazon, kind: str) -> None:
    lines = write_files(tmp_path / "in", files=2, count=25)
    address = amazon.make(kind)
    folder = create(tmp_path, lines, source=tmp_path / "in", write={"to": address, **WRITE})
    assert run(folder).documents == 50
    found = amazon.take(address)
    assert normal([body for _, body in found]) == expected(tmp_path, lines, tmp_path / "in")
    assert len({id_ for id_, _ in found}) == 50
    if kind == "kinesis":
        assert all(json.loads(body)["id"] == id_ for id_, body in found)
    assert run(folder).tasks == 0
    assert not amazon.take(address) or kind == "kinesis"


PICKY = """
from webmill.extract.capture import document_of
from webmill.model import Document

def document(page) -> Document:
    if page.target_uri.endswith(("3", "4")):
        raise ValueError("not this one")
    return document_of(page)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_errors_arrive(tmp_path: Path, amazon: Amazon, kind: str) -> None:
    lines = write_files(tmp_path / "in", files=1, count=10)
    (tmp_path / "in" / "picky.py").write_text(PICKY)
    address = amazon.make(kind)
    folder = create(
        tmp_path,
        lines,
        source=tmp_path / "in",
        write=WRITE,
        errors={"to": address},
        document={"function": "picky.py:document"},
    )
    report = run(folder)
    assert (report.documents, report.errors) == (8, 2)
    assert {json.loads(body)["url"][-3:] for _, body in amazon.take(address)} == {"0-3", "0-4"}
    shown = webmill("dataset", "errors", folder.path)
    assert "read them there" in shown.err
    assert "SECRET" not in shown.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_killed_before_its_receipt_sends_again_under_the_same_ids(
    tmp_path: Path, amazon: Amazon, front: Front, kind: str
) -> None:
    lines = write_files(tmp_path / "in", files=1, count=40)
    address = amazon.make(kind)
    write = {"to": f"{address}&proxy={front.url}", **WRITE}
    folder = create(tmp_path, lines, source=tmp_path / "in", write=write)
    command = [sys.executable, "-m", "webmill", "-q", "dataset", "run", str(folder.path), "--executor", "inline"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def kill_at_the_third(operation: str, request: Request, forward: Forward) -> tuple[int, Request]:
        answer = forward(request)  # taken, and nobody hears of it
        if len(front.of("SendMessageBatch") + front.of("PutRecords")) == 3:
            process.kill()
            process.wait()
        return answer

    front.meddle = kill_at_the_third
    process.communicate()
    assert process.returncode == -9
    front.meddle = lambda _, request, forward: forward(request)
    before = {view.totals.parts for view in views(folder)}
    assert before == {2}
    assert run(folder).documents == 40
    found = amazon.take(address)
    assert normal(list(dict(found).values())) == expected(tmp_path, lines, tmp_path / "in")
    assert len(set(found)) == 40  # what came twice has the same bytes
    assert len(found) == (40 if kind == "sqs.fifo" else 48)  # a FIFO queue leaves out what it knows


@pytest.mark.parametrize(("kind", "letters"), [("sqs", 300_000), ("kinesis", 1_100_000)])
def test_a_document_that_is_too_large_is_an_error_and_the_others_arrive(
    tmp_path: Path, amazon: Amazon, kind: str, letters: int
) -> None:
    folder, address = with_a_long_page(tmp_path, amazon, kind, letters)
    report = run(folder)
    assert (report.documents, report.errors, len(report.failures)) == (2, 1, 0)
    assert views(folder)[0].totals.reasons == {"too_large": 1}
    [error] = lines_of(folder.path / "errors")
    assert (error["url"], error["reason"]) == ("https://example.org/long", "too_large")
    assert "bytes as a message" in error["errorMessage"]
    assert {json.loads(body)["url"][-1] for _, body in amazon.take(address)} == {"a", "b"}


def with_a_long_page(
    tmp_path: Path, amazon: Amazon, kind: str, letters: int, *, option: str = ""
) -> tuple[DatasetFolder, str]:
    pages = [Spec("a"), Spec("long", text="x" * letters), Spec("b")]
    line = write_triple(tmp_path / "in", "f", make_triple(pages))
    address = amazon.make(kind)
    return create(tmp_path, [line], source=tmp_path / "in", write={"to": address + option}), address


def test_a_queue_may_be_said_to_take_more(tmp_path: Path, amazon: Amazon) -> None:
    folder, address = with_a_long_page(tmp_path, amazon, "sqs", 900_000, option="&max_bytes=1048576")
    assert run(folder).documents == 3
    assert len(amazon.take(address)) == 3


def test_an_error_that_is_too_large_is_shortened(tmp_path: Path, amazon: Amazon) -> None:
    line = write_triple(tmp_path / "in", "f", make_triple([Spec("a", uri="https://example.org/" + "u" * 20_000)]))
    (tmp_path / "in" / "no.py").write_text("def document(page):\n    raise ValueError('no')\n")
    address = amazon.make("sqs")
    errors = {"to": f"{address}&max_bytes=16384"}
    folder = create(tmp_path, [line], source=tmp_path / "in", errors=errors, document={"function": "no.py:document"})
    assert run(folder).errors == 1
    [(_, body)] = amazon.take(address)
    error = json.loads(body)
    assert len(error["url"]) == 200
    assert error["startOffset"]
    assert "shortened" in error["errorMessage"]


@pytest.mark.parametrize("kind", ["sqs", "kinesis"])
def test_a_missing_queue_is_a_sentence(tmp_path: Path, amazon: Amazon, kind: str) -> None:
    lines = write_files(tmp_path / "in", files=1, count=1)
    folder = create(tmp_path, lines, source=tmp_path / "in", write={"to": amazon.address(kind, "nowhere")})
    ended = webmill("dataset", "run", folder.path, "--executor", "inline")
    assert ended.code == 1
    assert f"{kind}://nowhere does not exist" in ended.err
    assert "create it" in ended.err
    assert "SECRET" not in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("kind", ["sqs", "kinesis"])
def test_workers_of_a_pool_write_too(tmp_path: Path, amazon: Amazon, kind: str) -> None:
    lines = write_files(tmp_path / "in", files=2, count=10)
    address = amazon.make(kind)
    for number, (to, code) in enumerate([(address, 0), (amazon.address(kind, "nowhere"), 1)]):
        folder = create(tmp_path / str(number), lines, source=tmp_path / "in", write={"to": to, **WRITE})
        ended = webmill("dataset", "run", folder.path, "--executor", "pool", "--jobs", "2")
        assert ended.code == code, ended.err
    assert len(amazon.take(address)) == 20
    assert "does not exist" in ended.err


# --- what may be answered ---------------------------------------------------------------------------------------------


def test_entries_that_failed_alone_are_sent_again_alone(amazon: Amazon, front: Front) -> None:
    address, failed = amazon.make("sqs"), []

    def fail_some_once(operation: str, request: Request, forward: Forward) -> tuple[int, Request]:
        if operation != "SendMessageBatch" or failed:
            return forward(request)
        failed.extend(entry for entry in request["Entries"] if int(entry["Id"]) % 3 == 0)
        rest = [entry for entry in request["Entries"] if entry not in failed]
        status, answer = forward({**request, "Entries": rest})
        failures = [{"Id": entry["Id"], "SenderFault": False, "Code": "InternalError"} for entry in failed]
        return status, {**answer, "Failed": failures}

    front.meddle = fail_some_once
    deliver(address, rows_of(*range(10)), front)
    assert Counter(json.loads(body) for _, body in amazon.take(address)) == Counter(range(10))
    assert [len(request["Entries"]) for request in front.of("SendMessageBatch")] == [10, 4]


def test_records_that_failed_alone_are_sent_again_alone(amazon: Amazon, front: Front) -> None:
    address, failed = amazon.make("kinesis"), []

    def fail_some_once(operation: str, request: Request, forward: Forward) -> tuple[int, Request]:
        if failed:
            return forward(request)
        failed.extend(request["Records"][::3])
        rest = [record for record in request["Records"] if record not in failed]
        status, answer = forward({**request, "Records": rest})
        results = iter(answer["Records"])
        refusal = {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "slow down"}
        mixed = [refusal if record in failed else next(results) for record in request["Records"]]
        return status, {"FailedRecordCount": len(failed), "Records": mixed}

    front.meddle = fail_some_once
    deliver(address, rows_of(*range(10)), front)
    assert Counter(json.loads(body) for _, body in amazon.take(address)) == Counter(range(10))
    assert [len(request["Records"]) for request in front.of("PutRecords")] == [10, 4]


def test_patience_begins_anew_when_some_were_taken(amazon: Amazon, front: Front) -> None:
    """Ten messages, one taken at a time: more tries than patience alone allows."""
    address = amazon.make("sqs")

    def take_one(operation: str, request: Request, forward: Forward) -> tuple[int, Request]:
        if operation != "SendMessageBatch":
            return forward(request)
        first, *rest = request["Entries"]
        status, answer = forward({**request, "Entries": [first]})
        failures = [{"Id": entry["Id"], "SenderFault": False, "Code": "RequestThrottled"} for entry in rest]
        return status, {**answer, "Failed": failures}

    front.meddle = take_one
    deliver(address, rows_of(*range(10)), front)
    assert sorted(json.loads(body) for _, body in amazon.take(address)) == list(range(10))


@pytest.mark.parametrize("kind", ["sqs", "kinesis"])
@pytest.mark.parametrize(
    ("status", "code"), [(400, "ThrottlingException"), (503, "ServiceUnavailable"), (500, "InternalFailure")]
)
def test_what_may_work_later_is_tried_again(amazon: Amazon, front: Front, kind: str, status: int, code: str) -> None:
    address = amazon.make(kind)
    front.meddle = lambda _, request, forward: (
        forward(request) if len(front.requests) > 2 else (status, {"__type": code, "message": "later"})
    )
    deliver(address, rows_of(1), front)
    assert len(amazon.take(address)) == 1
    front.meddle = lambda *_: (status, {"__type": code, "message": "later"})
    with pytest.raises(Unavailable, match=code):
        deliver(address, rows_of(1), front)


@pytest.mark.parametrize("kind", ["sqs", "kinesis"])
def test_who_may_not_write_is_told_so(amazon: Amazon, front: Front, kind: str) -> None:
    front.meddle = lambda *_: (400, {"__type": "AccessDeniedException", "message": "you may not"})
    with pytest.raises(Misconfigured, match="AccessDeniedException: you may not") as caught:
        deliver(amazon.make(kind), rows_of(1), front)
    assert "SECRET" not in str(caught.value)
    assert len(front.requests) == 1


def test_a_message_that_is_refused_for_itself_is_not_sent_for_ever(amazon: Amazon, front: Front) -> None:
    address = amazon.make("sqs")

    def refuse(operation: str, request: Request, forward: Forward) -> tuple[int, Request]:
        if operation != "SendMessageBatch":
            return forward(request)
        return 200, {"Successful": [], "Failed": [{"Id": "0", "SenderFault": True, "Code": "KMS.DisabledException"}]}

    front.meddle = refuse
    with pytest.raises(Misconfigured, match="DisabledException"):
        deliver(address, rows_of(1), front)


@pytest.mark.parametrize("kind", ["sqs", "kinesis"])
def test_a_server_out_of_reach_or_out_of_its_mind_is_unavailable(amazon: Amazon, front: Front, kind: str) -> None:
    for endpoint in ("http://127.0.0.1:1", front.url):  # the front takes no request that is not for a proxy
        with pytest.raises(Unavailable, match=f"{kind}://q"):
            deliver(f"{kind}://KEY:SECRET@q?region=us-east-1&endpoint={endpoint}", rows_of(1))


# --- limits -----------------------------------------------------------------------------------------------------------


def test_batches_of_sqs_keep_its_limits(amazon: Amazon, front: Front) -> None:
    address = amazon.make("sqs")
    rows = rows_of(*("é" * (number * 999 % 40_000) for number in range(60)), *range(15))
    deliver(address, rows, front)
    batches = [request["Entries"] for request in front.of("SendMessageBatch")]
    assert max(map(len, batches)) == 10
    assert max(sum(len(entry["MessageBody"].encode()) for entry in batch) for batch in batches) <= 256 * 1024
    assert len(amazon.take(address)) == 75


def test_requests_of_kinesis_keep_its_limits(amazon: Amazon, front: Front) -> None:
    address = amazon.make("kinesis")
    deliver(address, rows_of(*("x" * 900_000 for _ in range(12)), *range(1200)), front)
    requests = [request["Records"] for request in front.of("PutRecords")]
    assert max(map(len, requests)) == 500
    sizes = [
        sum(len(b64decode(record["Data"])) + len(record["PartitionKey"]) for record in records) for records in requests
    ]
    assert max(sizes) <= 5 << 20
    assert sum(map(len, requests)) == 1212


@pytest.mark.parametrize(("kind", "limit"), [("sqs", 256 << 10), ("kinesis", 1 << 20)])
def test_the_longest_row_that_passes_the_check_is_taken(amazon: Amazon, kind: str, limit: int) -> None:
    """And nothing is sent of a batch that has a longer one."""
    address = amazon.make(kind)
    sink = open_sink(address)
    size = next(size for size in range(limit, 0, -1) if passes(sink, "x" * size))
    assert limit - 512 < size
    [row] = rows_of("x" * size)
    with pytest.raises(BadInput, match="too_large"):
        sink.deliver("batch", [row, *rows_of("x" * limit)])
    assert not amazon.take(address)
    sink.deliver("batch", [row])
    sink.close()
    assert [body for _, body in amazon.take(address)] == [row.line]


def passes(sink: Sink, value: str) -> bool:
    try:
        sink.check(*rows_of(value))
    except BadInput:
        return False
    return True


def test_a_queue_that_takes_less_is_told_at_once(amazon: Amazon) -> None:
    address = amazon.make("sqs", MaximumMessageSize="65536")
    with pytest.raises(Misconfigured, match="max_bytes=65536"):
        deliver(address, rows_of(1))
    deliver(f"{address}&max_bytes=65536", rows_of(1))
    assert len(amazon.take(address)) == 1


def test_characters_that_sqs_refuses_arrive_escaped(amazon: Amazon) -> None:
    text = "a\ufffeb\uffffc\x00\x0b\ufffd"
    address = amazon.make("sqs")
    deliver(address, [SinkRow(text, json.dumps(text, ensure_ascii=False).encode())])
    [(_, body)] = amazon.take(address)
    assert not set("\ufffe\uffff") & set(body.decode())
    assert json.loads(body) == text


def test_a_long_id_is_hashed_into_a_partition_key(amazon: Amazon) -> None:
    from webmill.model import Document

    address = amazon.make("kinesis")
    long = Document(id="i" * 257, url="")
    deliver(address, [SinkRow(long, b"1"), SinkRow(Document(id="i" * 256, url=""), b"2"), SinkRow({"no": "id"}, b"3")])
    keys = {body: key for key, body in amazon.take(address)}
    assert (len(keys[b"1"]), keys[b"2"], keys[b"3"]) == (64, "i" * 256, "batch-00002")
