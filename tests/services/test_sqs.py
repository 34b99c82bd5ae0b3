"""What only SQS can do to us: windows of deduplication, partial answers, lost answers, receipts that are over."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.aws_front import Forward, Front, Request, fronting
from tests.services.sqs_bench import Place, Refuses, client_of, event_of
from webmill.errors import BadInput, Conflict, Misconfigured, Unavailable
from webmill.infra.queue.backends import open_queue
from webmill.infra.queue.base import Message, QueueOptions
from webmill.infra.queue.sqs import SqsQueue
from webmill.infra.queue.sqs_messages import RESERVE

pytestmark = pytest.mark.server("aws")


@pytest.fixture(scope="module")
def client(aws_url: str) -> Iterator[Any]:
    client = client_of(aws_url)
    yield client
    client.close()


@pytest.fixture
def place(aws_url: str, client: Any) -> Place:
    return Place(aws_url, client)


@pytest.fixture
def front() -> Iterator[Front]:
    with fronting() as front:
        yield front


def drain(queue: SqsQueue) -> list[str]:
    ids = []
    with queue.consume(prefetch=10) as consumer:
        while delivery := consumer.receive(timeout=0):
            ids.append(delivery.id)
            delivery.ack()
    return ids


def messages(count: int) -> list[Message]:
    return [Message(f"id-{number}", b"{}") for number in range(count)]


# --- the window of deduplication --------------------------------------------------------------------------------------


def test_work_that_is_published_again_at_once_is_handed_out_again(place: Place, front: Front) -> None:
    with place.open(front) as queue:
        for _ in range(3):
            assert queue.publish(messages(2)) == 2
            assert drain(queue) == ["id-0", "id-1"]
    sent = [entry for request in front.of("SendMessageBatch") for entry in request["Entries"]]
    assert len({entry["MessageDeduplicationId"] for entry in sent}) == 6  # moto forgets what was deleted; SQS does not
    assert len({entry["MessageGroupId"] for entry in sent}) == 2


def test_an_answer_that_was_lost_makes_no_second_message(place: Place, front: Front) -> None:
    with place.open(front) as queue:
        front.meddle = Refuses("SendMessageBatch", 500, "InternalError", times=2, after=True)
        assert queue.publish(messages(3)) == 3
        assert len(front.of("SendMessageBatch")) == 3
        assert drain(queue) == ["id-0", "id-1", "id-2"]


def test_twins_are_not_in_two_hands_at_once(place: Place) -> None:
    with place.open() as queue:
        queue.publish(messages(1))
        queue.publish(messages(1))
        with queue.consume() as first, queue.consume() as second:
            one = first.receive(timeout=60)
            assert one is not None
            assert second.receive(timeout=0) is None
            one.ack()
            other = second.receive(timeout=60)
            assert other is not None
            assert (other.id, other.attempts) == (one.id, 1)
            other.ack()


@pytest.mark.parametrize("settle", ["retry", "bury"])
def test_a_worker_that_dies_between_sending_anew_and_deleting_leaves_one_message_when_it_is_done_again(
    place: Place, front: Front, settle: str
) -> None:
    with place.open(front) as queue:
        queue.publish(messages(1))
        with queue.consume() as consumer:
            delivery = consumer.receive(timeout=60)
            assert delivery is not None
            front.meddle = Refuses("DeleteMessage", 503, "ServiceUnavailable")
            with pytest.raises(Unavailable):
                getattr(delivery, settle)("trouble")
            front.meddle = lambda _, request, forward: forward(request)
            getattr(delivery, settle)("trouble")
        if settle == "retry":
            assert drain(queue) == ["id-0"]
        else:
            assert [buried.reason for buried in queue.dead_letters()] == ["trouble"]
            assert drain(queue) == []


def test_messages_of_one_group_are_in_one_hand_at_a_time_also_when_they_come_again(place: Place) -> None:
    with place.open(group_of=lambda message: message.id.partition("/")[0]) as queue:
        queue.publish([Message("a/1", b""), Message("a/2", b""), Message("b/1", b"")])
        with queue.consume() as first, queue.consume() as second:
            for _ in range(2):
                one, other = first.receive(timeout=60), second.receive(timeout=60)
                assert one is not None
                assert other is not None
                assert {one.id[0], other.id[0]} == {"a", "b"}
                assert queue.consume().receive(timeout=0) is None
                one.retry("again")
                other.retry("again")


# --- batches, throttling, receipts ------------------------------------------------------------------------------------


def test_batches_have_ten_messages_and_256_kib(place: Place, front: Front) -> None:
    with place.open(front) as queue:
        queue.publish([Message(f"small-{number}", b"x") for number in range(23)])
        queue.publish([Message(f"large-{number}", b"x" * 100_000) for number in range(5)])
        sizes = [len(request["Entries"]) for request in front.of("SendMessageBatch")]
        assert sizes == [10, 10, 3, 2, 2, 1]
        assert len(drain(queue)) == 28


def test_entries_that_were_not_taken_are_sent_again_and_only_those(place: Place, front: Front) -> None:
    refused: list[str] = []

    def picky(operation: str, request: Request, forward: Forward) -> tuple[int, Request]:
        if operation != "SendMessageBatch" or len(refused) >= 3:
            return forward(request)
        out = request["Entries"].pop()
        refused.append(out["MessageBody"])
        status, answer = forward(request) if request["Entries"] else (200, {"Successful": []})
        failure = {"Id": out["Id"], "Code": "InternalError", "Message": "", "SenderFault": False}
        return status, {**answer, "Failed": [failure]}

    front.meddle = picky
    with place.open(front) as queue:
        assert queue.publish([Message(f"{number}", f"{number}".encode()) for number in range(10)]) == 10
        assert refused == ["9", "9", "9"]
        assert [len(request["Entries"]) for request in front.of("SendMessageBatch")] == [9, 0, 0, 1]
        assert sorted(drain(queue), key=int) == [str(number) for number in range(10)]


def test_an_entry_that_will_never_be_taken_is_told(place: Place, front: Front) -> None:
    def strict(operation: str, request: Request, forward: Forward) -> tuple[int, Request]:
        if operation != "SendMessageBatch":
            return forward(request)
        failure = {"Id": "0", "Code": "AccessDenied", "Message": "not you", "SenderFault": True}
        return 200, {"Successful": [], "Failed": [failure]}

    front.meddle = strict
    with place.open(front) as queue, pytest.raises(Misconfigured, match="not you"):
        queue.publish(messages(1))


@pytest.mark.parametrize(
    "operation", ["ReceiveMessage", "DeleteMessage", "ChangeMessageVisibilityBatch", "GetQueueAttributes"]
)
def test_throttled_calls_are_made_again(place: Place, front: Front, operation: str) -> None:
    with place.open(front) as queue:
        queue.publish(messages(1))
        front.meddle = Refuses(operation, 400, "RequestThrottled", times=2)
        with queue.consume() as consumer:
            delivery = consumer.receive(timeout=60)
            assert delivery is not None
            delivery.extend()
            delivery.ack()
        assert queue.stats().leased == 0
        assert len(front.of(operation)) >= 3


def test_a_queue_that_stays_away_is_unavailable(place: Place, front: Front) -> None:
    with place.open(front) as queue:
        front.meddle = lambda *_: (503, {"__type": "ServiceUnavailable"})
        with pytest.raises(Unavailable):
            queue.publish(messages(1))
        with queue.consume() as consumer, pytest.raises(Unavailable):
            consumer.receive(timeout=0)


@pytest.mark.parametrize("code", ["InvalidParameterValue", "ReceiptHandleIsInvalid"])
def test_a_receipt_that_sqs_says_is_over_is_a_conflict(place: Place, front: Front, code: str) -> None:
    with place.open(front) as queue:
        queue.publish(messages(1))
        with queue.consume() as consumer:
            delivery = consumer.receive(timeout=60)
            assert delivery is not None
            front.meddle = Refuses("DeleteMessage", 400, code)
            with pytest.raises(Conflict):
                delivery.ack()
            with pytest.raises(Conflict):
                delivery.bury("too late")
            assert list(queue.dead_letters()) == []


def test_who_has_lost_a_message_buries_nothing(place: Place, front: Front) -> None:
    """SQS says it of one entry among others."""

    def gone(operation: str, request: Request, forward: Forward) -> tuple[int, Request]:
        if operation != "ChangeMessageVisibilityBatch":
            return forward(request)
        failure = {"Id": "0", "Code": "AWS.SimpleQueueService.MessageNotInflight", "Message": "", "SenderFault": True}
        return 200, {"Successful": [], "Failed": [failure]}

    with place.open(front) as queue:
        queue.publish(messages(1))
        with queue.consume() as consumer:
            delivery = consumer.receive(timeout=60)
            assert delivery is not None
            front.meddle = gone
            with pytest.raises(Conflict):
                delivery.bury("too late")
        assert queue.stats().buried == 0


def test_what_nobody_settled_runs_out_though_its_consumer_extends_other_leases(place: Place, front: Front) -> None:
    with place.open(front) as queue:
        queue.publish(messages(2))
        with queue.consume() as consumer:
            forgotten, current = (consumer.receive(timeout=60) for _ in range(2))
            assert forgotten is not None
            assert current is not None
            current.extend()
        (request,) = front.of("ChangeMessageVisibilityBatch")
        assert [entry["ReceiptHandle"] for entry in request["Entries"]] == [current.copy.receipt]


# --- what is too large, and what is somebody else's -------------------------------------------------------------------


def test_the_longest_message_can_still_be_buried_with_the_longest_reasons(place: Place) -> None:
    longest = (256 << 10) - RESERVE
    with place.open() as queue:
        queue.publish([Message("i" * 255, b"x" * longest)])
        with queue.consume() as consumer:
            for settle in ("retry", "bury"):
                delivery = consumer.receive(timeout=60)
                assert delivery is not None
                getattr(delivery, settle)("\U0001f577" * 5000)
        (buried,) = queue.dead_letters()
        assert (len(buried.body), len(buried.reason)) == (longest, 4096)
        with pytest.raises(BadInput, match="pass its name") as refused:
            queue.publish([Message("longer", b"x" * (longest + 1))])
        assert refused.value.reason == "too_large"
        with pytest.raises(BadInput, match="pass its name"):
            queue.publish([Message("not text", b"\xff" * longest)])


def test_a_reason_with_characters_that_sqs_forbids_is_kept_without_them(place: Place) -> None:
    with place.open() as queue:
        queue.publish(messages(1))
        with queue.consume() as consumer:
            delivery = consumer.receive(timeout=60)
            assert delivery is not None
            delivery.bury("a\x00b\ufffe\udc80c")
        assert [buried.reason for buried in queue.dead_letters()] == ["a\ufffdb\ufffd\ufffdc"]
        with pytest.raises(BadInput) as refused:
            queue.publish([Message("a\x00b", b"")])
        assert refused.value.reason == "bad_id"


def test_a_stranger_s_message_is_worked_and_buried_like_others(place: Place) -> None:
    with place.open() as queue:
        strangers = {"webmill-coding": "base64", "webmill-attempts": "many", "webmill-delay": "nan"}
        attributes = {name: {"DataType": "String", "StringValue": value} for name, value in strangers.items()}
        sent = place.client.send_message(
            QueueUrl=place.url(),
            MessageBody="no base64!",
            MessageAttributes=attributes,
            MessageGroupId="g",
            MessageDeduplicationId="d",
        )
        with queue.consume() as consumer:
            delivery = consumer.receive(timeout=60)
            assert delivery is not None
            assert (delivery.id, delivery.body, delivery.attempts) == (sent["MessageId"], b"no base64!", 1)
            delivery.bury("not ours")
        (buried,) = queue.dead_letters()
        assert (buried.id, buried.body, buried.reason) == (sent["MessageId"], b"no base64!", "not ours")
        assert queue.drop([buried.id]) == 1


def test_what_sqs_itself_gave_up_is_listed_with_a_reason_and_requeued(place: Place) -> None:
    """Workers that die before our code runs, time after time."""
    with place.open(max_attempts=2) as queue:
        queue.publish(messages(1))
        url = place.url()
        for _ in range(4):
            (message,) = place.take()
            place.client.change_message_visibility(
                QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
            )
        assert place.take() == []
        (buried,) = queue.dead_letters()
        assert (buried.id, buried.attempts) == ("id-0", 2)
        assert buried.reason == "lease expired 2 times: the worker died or hung"
        assert queue.requeue() == 1
        with queue.consume() as consumer:
            delivery = consumer.receive(timeout=60)
            assert delivery is not None
            assert (delivery.id, delivery.attempts) == ("id-0", 1)
            delivery.ack()


# --- the records of a Lambda event ------------------------------------------------------------------------------------


def test_the_records_of_an_event_are_deliveries(place: Place) -> None:
    with place.open() as queue:
        queue.publish([Message("one", b"1"), Message("two", b"\xff"), Message("three", b"")])
        done: list[str] = []
        records = event_of(place.take())
        with queue.consume_event(records, deleted=done.append) as consumer:
            deliveries = [consumer.receive(timeout=0) for _ in range(3)]
            assert consumer.receive(timeout=0) is None
            reported = [(one.id, one.body, one.attempts) for one in deliveries if one]
            assert reported == [("one", b"1", 1), ("two", b"\xff", 1), ("three", b"", 1)]
            for one in deliveries[:2]:
                assert one is not None
                one.ack()
        assert done == [record["receiptHandle"] for record in records[:2]]
        assert queue.stats().leased == 1


def test_a_record_that_came_too_early_or_too_often_is_not_handed_out(place: Place) -> None:
    with place.open() as queue, place.open(max_attempts=1) as strict:
        queue.publish(messages(1))
        with queue.consume() as consumer:
            delivery = consumer.receive(timeout=60)
            assert delivery is not None
            delivery.retry("later", delay=300)
        early, done = place.take(), []
        assert len(early) == 1
        with queue.consume_event(event_of(early), deleted=done.append) as consumer:
            assert consumer.receive(timeout=0) is None
        assert (queue.stats().delayed, queue.stats().buried) == (1, 0)
        assert place.take() == []

        strict.publish([Message("often", b"")])
        (message,) = place.take(again=0)
        message["Attributes"]["ApproximateReceiveCount"] = "2"
        with strict.consume_event(event_of([message]), deleted=done.append) as consumer:
            assert consumer.receive(timeout=0) is None
        assert [buried.id for buried in strict.dead_letters()] == ["often"]
        assert done == [message["ReceiptHandle"]]


# --- queues that are there already ------------------------------------------------------------------------------------


def refusal(place: Place) -> str:
    with pytest.raises(Misconfigured) as refused, place.open():
        pass
    return str(refused.value)


def test_a_queue_that_somebody_made_is_used_with_its_own_dead_letter_queue(place: Place) -> None:
    place.make(RedrivePolicy=place.redrive(place.make("-dead"), 7))
    with place.open() as queue:
        queue.publish(messages(1))
        with queue.consume() as consumer:
            delivery = consumer.receive(timeout=60)
            assert delivery is not None
            delivery.bury("bad")
        assert [buried.id for buried in queue.dead_letters()] == ["id-0"]
        answer = place.client.get_queue_attributes(
            QueueUrl=place.url("-dead"), AttributeNames=["ApproximateNumberOfMessages"]
        )
        assert answer["Attributes"]["ApproximateNumberOfMessages"] == "1"


def test_a_queue_without_dead_letters_is_refused(place: Place) -> None:
    place.make()
    assert "has no dead-letter queue" in refusal(place)


def test_a_queue_that_gives_up_before_our_attempts_are_made_is_refused(place: Place) -> None:
    place.make(RedrivePolicy=place.redrive(place.make("-dead"), 5))
    assert "set its maxReceiveCount to 7" in refusal(place)


def test_a_queue_of_short_messages_is_refused(place: Place) -> None:
    place.make(RedrivePolicy=place.redrive(place.make("-dead"), 7), MaximumMessageSize="100000")
    assert "raise its MaximumMessageSize to 262,144" in refusal(place)
    place.address += "&max_bytes=100000"
    with place.open() as queue:
        assert queue.publish(messages(1)) == 1


def test_a_queue_that_forgets_early_is_warned_of(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.make(RedrivePolicy=place.redrive(place.make("-dead"), 7), MessageRetentionPeriod="3600")
    with caplog.at_level(logging.WARNING), place.open():
        assert "will forget messages" in caplog.text


@pytest.mark.parametrize("name", ["standard", "with space.fifo", "x" * 80 + ".fifo"])
def test_a_name_that_no_fifo_queue_can_have_is_refused(aws_url: str, name: str) -> None:
    with pytest.raises(Misconfigured):
        SqsQueue(f"sqs://{name}?region=us-east-1&endpoint={aws_url}")


def test_keys_are_in_no_message_and_no_log(
    place: Place, front: Front, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG, logger="webmill")
    front.meddle = lambda *_: (403, {"__type": "InvalidClientTokenId", "message": "no such key"})
    with pytest.raises(Misconfigured) as refused, place.open(front):
        pass
    with pytest.raises(Misconfigured) as unknown:
        open_queue("sqz://AKIAKEY:s3cr3t@name", QueueOptions(name="x", folder=tmp_path))
    for text in (str(refused.value), str(unknown.value), caplog.text):
        assert "s3cr3t" not in text
        assert "AKIAKEY" not in text


def test_its_address_opens_it(place: Place, tmp_path: Path) -> None:
    queue = open_queue(place.address, QueueOptions(name="ignored", folder=tmp_path, attempts=3, lease=30.0))
    assert queue.publish(messages(1)) == 1
    queue.close()
    answer = place.client.get_queue_attributes(QueueUrl=place.url(), AttributeNames=["All"])["Attributes"]
    assert json.loads(answer["RedrivePolicy"])["maxReceiveCount"] in (5, "5")
    assert (answer["VisibilityTimeout"], answer["MessageRetentionPeriod"]) == ("30", "1209600")


def test_many_processes_may_make_the_same_queue(place: Place) -> None:
    with place.open() as first, place.open() as second:
        first.publish([Message(secrets.token_hex(4), b"")])
        assert len(drain(second)) == 1
