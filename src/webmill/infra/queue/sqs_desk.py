"""One queue of SQS: its calls, tried again when that may help, with errors in our words."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from webmill.errors import Conflict, Misconfigured, Unavailable
from webmill.infra.batches import batches
from webmill.infra.queue.sqs_letters import SYSTEM, WANTED, Copy, Letter, copy_of, size_of
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.sinks.aws import Address, errors, refused, send_all
from webmill.infra.sinks.sqs import ENTRIES, MAX_BYTES

T = TypeVar("T")
Entry = dict[str, Any]

LONGEST_POLL = 20  # seconds
LONGEST_LEASE = 12 * 3600
# What SQS says of a receipt whose lease is over, in one way or another.
OVER = ("receipthandleisinvalid", "messagenotinflight", "invalidparametervalue", "invalididformat")


class Counts(msgspec.Struct, frozen=True):
    """Approximate, as SQS says."""

    ready: int
    held: int
    delayed: int


class Desk:
    """Safe to share between threads."""

    def __init__(self, client: Any, address: Address, url: str, *, patience: BackoffPolicy) -> None:
        self._client = client
        self._address = address
        self._url = url
        self._patience = patience

    def send(self, letters: Iterable[Letter]) -> None:
        """Until each is taken. An answer that was lost makes no second copy: the deduplication id is the same."""
        entries = (letter.entry() for letter in letters)
        for batch in batches(entries, size_of, count=ENTRIES, size=MAX_BYTES):
            send_all(batch, self._send, what=self._address, patience=self._patience)

    def receive(self, *, count: int, wait: int, lease: float) -> list[Copy]:
        """Asked once: when it failed and was asked again, nobody could say when the leases began."""
        with errors(self._address):
            answer = self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=min(count, ENTRIES),
                WaitTimeSeconds=min(wait, LONGEST_POLL),
                VisibilityTimeout=seconds(lease),
                MessageAttributeNames=WANTED,
                MessageSystemAttributeNames=SYSTEM,
            )
        return [copy_of(message) for message in answer.get("Messages", ())]

    def delete(self, copy: Copy) -> None:
        """Conflict: it is no longer ours."""
        try:
            self._try(lambda: self._client.delete_message(QueueUrl=self._url, ReceiptHandle=copy.receipt))
        except Misconfigured as error:
            if is_over(code_of(error)):
                raise over(copy.id) from error
            raise

    def hold(self, copies: Sequence[Copy], lease: float) -> set[str]:
        """Let their leases last that long from now; the receipts of those that are still ours."""
        held: set[str] = set()
        for start in range(0, len(copies), ENTRIES):
            held |= self._try(lambda some=copies[start : start + ENTRIES]: self._hold(some, lease))  # type: ignore[misc]
        return held

    def count(self) -> Counts:
        names = [f"ApproximateNumberOfMessages{which}" for which in ("", "NotVisible", "Delayed")]
        answer = self._try(lambda: self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=names))
        return Counts(*(int(answer["Attributes"].get(name, 0)) for name in names))

    def wait_after(self, failures: int) -> float:
        return self._patience.wait(failures, retry_after=None, random=random.random())  # noqa: S311 - jitter

    def _try(self, call: Callable[[], T]) -> T:
        def once() -> T:
            with errors(self._address):
                return call()

        return retrying(once, policy=self._patience)

    def _send(self, batch: list[Entry]) -> tuple[list[Entry], str]:
        """Those that were not taken, and why."""
        entries = [{"Id": str(place), **entry} for place, entry in enumerate(batch)]
        answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
        taken = {int(one["Id"]) for one in answer.get("Successful", ())}
        reasons = {self._reason(failure) for failure in answer.get("Failed", ())}
        return [entry for place, entry in enumerate(batch) if place not in taken], ", ".join(sorted(reasons))

    def _reason(self, failure: Mapping[str, Any]) -> str:
        """Misconfigured: trying again will not help."""
        code, message = str(failure.get("Code", "")), str(failure.get("Message", ""))
        refusal = refused(self._address, code, message, status=400 if failure.get("SenderFault") else 500)
        if isinstance(refusal, Misconfigured):
            raise refusal
        return code

    def _hold(self, copies: Sequence[Copy], lease: float) -> set[str]:
        entries = [
            {"Id": str(place), "ReceiptHandle": copy.receipt, "VisibilityTimeout": seconds(lease)}
            for place, copy in enumerate(copies)
        ]
        answer = self._client.change_message_visibility_batch(QueueUrl=self._url, Entries=entries)
        lost = {int(failure["Id"]) for failure in answer.get("Failed", ()) if is_over(str(failure.get("Code", "")))}
        held = {int(one["Id"]) for one in answer.get("Successful", ())}
        if len(held | lost) < len(copies):
            raise Unavailable(f"{self._address} did not say of {len(copies)} messages whether they are held")
        return {copies[place].receipt for place in held}


def code_of(error: Misconfigured) -> str:
    """What Amazon called it."""
    answer: dict[str, Any] = getattr(error.__cause__, "response", {})
    return str(answer.get("Error", {}).get("Code", ""))


def is_over(code: str) -> bool:
    return code.lower().rpartition(".")[2] in OVER


def over(id_: str) -> Conflict:
    return Conflict(f"the lease of message {id_} is over: it may be in other hands, leave its output unpublished")


def seconds(lease: float) -> int:
    """SQS counts whole ones."""
    return min(LONGEST_LEASE, math.ceil(lease))
