"""How a queue is declared at RabbitMQ, and how one is joined that another program has declared.

A queue of ours is durable, replicated, and buries by itself what no worker survives. RabbitMQ refuses a declaration
that differs from the queue it has. Such a queue is joined in two forms, never silently:

    queue_declare("batches")                  classic, not durable: what commoncrawl-pipeline declares
    queue_declare("batches", durable=True)    classic, durable

Any other is refused: nobody knows what it promises.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import msgspec

from webmill.errors import Misconfigured
from webmill.infra.log import SENTENCE
from webmill.infra.queue.rabbitmq_connection import ANSWER_TIMEOUT, Connection, aiormq
from webmill.infra.queue.rabbitmq_messages import close

log = logging.getLogger(__name__)

Arguments = Mapping[str, str | int]
# Listing a dead letter counts as a delivery; without a limit of its own RabbitMQ 4 loses it at the 21st.
NO_LIMIT = 2**31 - 1
QUORUM: Arguments = {"x-queue-type": "quorum"}
KEEP: Arguments = {
    **QUORUM,
    "x-dead-letter-exchange": "",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}
LOST_ON_RESTART = "it is not durable: when RabbitMQ restarts, the queue and all its messages are lost"
NOT_REPLICATED = "it is not replicated: its messages are lost with the disk of its node"


class QueueForm(msgspec.Struct, frozen=True):
    """The arguments of a declaration. `missing` says which promise such a queue does not keep."""

    arguments: Arguments = {}
    durable: bool = True
    missing: str = ""


TRANSIENT = QueueForm(durable=False, missing=LOST_ON_RESTART)
CLASSIC = QueueForm(missing=NOT_REPLICATED)
DEAD_LETTERS = QueueForm({**QUORUM, "x-delivery-limit": NO_LIMIT})


def work_form(*, max_attempts: int, dead_letter_queue: str) -> QueueForm:
    limit = max_attempts - 1  # the broker hands out once more than its limit
    return QueueForm({**KEEP, "x-delivery-limit": limit, "x-dead-letter-routing-key": dead_letter_queue})


def delay_form(*, to: str) -> QueueForm:
    return QueueForm({"x-dead-letter-routing-key": to, **KEEP})


async def declare_or_join(connection: Connection, name: str, forms: Sequence[QueueForm]) -> QueueForm:
    """Declare the queue in the first of the forms; if it exists in another of them, join it. Return its form.

    Misconfigured: it exists in none of them.
    """
    refusals = []
    for form in forms:
        try:
            await declare(connection, name, form)
            return form
        except aiormq.ChannelPreconditionFailed as error:
            refusals.append(error)
        except aiormq.ChannelLockedResource as error:
            raise refused(name, error) from error
    raise refused(name, refusals[0]) from refusals[0]


async def declare(connection: Connection, name: str, form: QueueForm) -> None:
    channel = await connection.channel(timeout=ANSWER_TIMEOUT)  # RabbitMQ closes it when it refuses
    try:
        await channel.queue_declare(name, durable=form.durable, arguments=dict(form.arguments), timeout=ANSWER_TIMEOUT)
    finally:
        await close(channel)


def refused(name: str, error: BaseException) -> Misconfigured:
    return Misconfigured(
        f"the queue {name} exists with other arguments than were asked for ({error}): empty it and "
        f"delete it (rabbitmqctl delete_queue {name}), or choose another name"
    )


def warn_of_missing(name: str, form: QueueForm) -> None:
    repair = f"for all guarantees, delete it when it is empty (rabbitmqctl delete_queue {name}) and let webmill make it"
    sentence = f"the queue {name} is shared with programs that declare a classic queue, and {form.missing}; {repair}"
    log.warning("classic queue", extra={"queue": name, "durable": form.durable, SENTENCE: sentence})
