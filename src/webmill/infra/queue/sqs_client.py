"""The calls of one queue of SQS, retried when that may help, with errors of our tree."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from webmill.errors import Conflict, Misconfigured, Unavailable
from webmill.infra.batches import batches
from webmill.infra.queue.sqs_messages import (
    ATTRIBUTES,
    SYSTEM_ATTRIBUTES,
    MessageCopy,
    SqsOutgoingMessage,
    decode_message,
    size_of,
)
from webmill.infra.retry import BackoffPolicy
from webmill.infra.sinks.aws import AwsAddress, aws_errors, call_patiently, error_for_code, send_all
from webmill.infra.sinks.sqs import ENTRIES, MAX_BYTES

T = TypeVar("T")
Entry = dict[str, Any]

LONGEST_POLL = 20  # seconds
LONGEST_LEASE = 12 * 3600
# The codes of SQS for a receipt whose lease is over.
LEASE_OVER = ("receipthandleisinvalid", "messagenotinflight", "invalidparametervalue", "invalididformat")


class SqsCounts(msgspec.Struct, frozen=True):
    """How many messages a queue has, approximately, as SQS says."""

    ready: int
    leased: int
    delayed: int


class SqsClient:
    """Safe to share between threads."""

    def __init__(self, client: Any, address: AwsAddress, url: str, *, patience: BackoffPolicy) -> None:
        self._client = client
        self._address = address
        self._url = url
        self._patience = patience

    def send(self, messages: Iterable[SqsOutgoingMessage]) -> None:
        """Send until each is accepted. A lost answer makes no second copy: the deduplication id is the same."""
        entries = (message.entry() for message in messages)
        for batch in batches(entries, size_of, count=ENTRIES, size=MAX_BYTES):
            send_all(batch, self._send, what=self._address, patience=self._patience)

    def receive(self, *, count: int, wait: int, lease: float) -> list[MessageCopy]:
        """Receive up to `count` messages. Tried once: after a second try nobody could say when the leases began."""
        with aws_errors(self._address):
            answer = self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=min(count, ENTRIES),
                WaitTimeSeconds=min(wait, LONGEST_POLL),
                VisibilityTimeout=whole_seconds(lease),
                MessageAttributeNames=ATTRIBUTES,
                MessageSystemAttributeNames=SYSTEM_ATTRIBUTES,
            )
        return [decode_message(message) for message in answer.get("Messages", ())]

    def delete(self, copy: MessageCopy) -> None:
        """Delete a copy. Conflict: its lease is over."""
        try:
            self._try(lambda: self._client.delete_message(QueueUrl=self._url, ReceiptHandle=copy.receipt))
        except Misconfigured as error:
            if is_lease_over(error_code_of(error)):
                raise lease_over_error(copy.id) from error
            raise

    def extend_leases(self, copies: Sequence[MessageCopy], lease: float) -> set[str]:
        """Let their leases last `lease` seconds from now; return the receipts of those that are still ours."""
        leased: set[str] = set()
        for start in range(0, len(copies), ENTRIES):
            leased |= self._try(lambda some=copies[start : start + ENTRIES]: self._extend_leases(some, lease))  # type: ignore[misc]
        return leased

    def count(self) -> SqsCounts:
        names = [f"ApproximateNumberOfMessages{which}" for which in ("", "NotVisible", "Delayed")]
        answer = self._try(lambda: self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=names))
        return SqsCounts(*(int(answer["Attributes"].get(name, 0)) for name in names))

    def wait_after(self, failures: int) -> float:
        return self._patience.wait(failures, retry_after=None, random=random.random())  # noqa: S311 - jitter

    def _try(self, call: Callable[[], T]) -> T:
        return call_patiently(call, self._address, self._patience)

    def _send(self, batch: list[Entry]) -> tuple[list[Entry], str]:
        """Return those that were not accepted, and why."""
        entries = [{"Id": str(place), **entry} for place, entry in enumerate(batch)]
        answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
        accepted = {int(one["Id"]) for one in answer.get("Successful", ())}
        reasons = {self._reason(failure) for failure in answer.get("Failed", ())}
        return [entry for place, entry in enumerate(batch) if place not in accepted], ", ".join(sorted(reasons))

    def _reason(self, failure: Mapping[str, Any]) -> str:
        """Return the code of a failure. Misconfigured: trying again will not help."""
        code, message = str(failure.get("Code", "")), str(failure.get("Message", ""))
        refusal = error_for_code(self._address, code, message, status=400 if failure.get("SenderFault") else 500)
        if isinstance(refusal, Misconfigured):
            raise refusal
        return code

    def _extend_leases(self, copies: Sequence[MessageCopy], lease: float) -> set[str]:
        entries = [
            {"Id": str(place), "ReceiptHandle": copy.receipt, "VisibilityTimeout": whole_seconds(lease)}
            for place, copy in enumerate(copies)
        ]
        answer = self._client.change_message_visibility_batch(QueueUrl=self._url, Entries=entries)
        failed = answer.get("Failed", ())
        lost = {int(failure["Id"]) for failure in failed if is_lease_over(str(failure.get("Code", "")))}
        leased = {int(one["Id"]) for one in answer.get("Successful", ())}
        if len(leased | lost) < len(copies):
            raise Unavailable(f"{self._address} did not say which of {len(copies)} messages are still leased")
        return {copies[place].receipt for place in leased}


def error_code_of(error: Misconfigured) -> str:
    """Return the code that Amazon gave the error."""
    answer: dict[str, Any] = getattr(error.__cause__, "response", {})
    return str(answer.get("Error", {}).get("Code", ""))


def is_lease_over(code: str) -> bool:
    return code.lower().rpartition(".")[2] in LEASE_OVER


def lease_over_error(id_: str) -> Conflict:
    return Conflict(
        f"the lease of message {id_} is over: another worker may have it, so its output must not be published"
    )


def whole_seconds(lease: float) -> int:
    """Return whole seconds, which SQS counts in."""
    return min(LONGEST_LEASE, math.ceil(lease))
