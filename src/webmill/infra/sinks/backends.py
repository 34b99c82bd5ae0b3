"""Which stream an address names, where rows are only sent to: sqs://QUEUE?region=… · kinesis://STREAM?region=…

To add one: a function that takes the address and `id_of`, and its line in `STREAMS`; or, from another package, an
entry point of the group `webmill.stream`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from webmill.infra.address import scheme_of
from webmill.infra.registry import Registry
from webmill.infra.sinks.base import Sink

IdOf: TypeAlias = Callable[[object], str]
OpenStream: TypeAlias = Callable[[str, IdOf], Sink]

STREAMS = Registry[OpenStream](
    "stream",
    {"sqs": "webmill.infra.sinks.sqs:open_sqs", "kinesis": "webmill.infra.sinks.kinesis:open_kinesis"},
    group="webmill.stream",
    forms="sqs://QUEUE or kinesis://STREAM",
)


def open_stream(url: str, id_of: IdOf) -> Sink:
    """Open what rows are sent to. `id_of` tells a row's value from others."""
    return STREAMS.find(scheme_of(url)[0])(url, id_of)
