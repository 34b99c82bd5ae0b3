"""Which source of messages an address names: sqs://QUEUE?region=… · kinesis://STREAM?region=…

To add one: a function that takes the address, and its line in `SOURCES`; or, from another package, an entry point of
the group `webmill.source`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from webmill.infra.address import scheme_of
from webmill.infra.registry import Registry
from webmill.infra.sources.base import StreamSource

OpenSource: TypeAlias = Callable[[str], StreamSource]

SOURCES = Registry[OpenSource](
    "source",
    {"sqs": "webmill.infra.sources.sqs:SqsSource", "kinesis": "webmill.infra.sources.kinesis:KinesisSource"},
    group="webmill.source",
    forms="sqs://QUEUE or kinesis://STREAM",
)


def open_source(url: str) -> StreamSource:
    return SOURCES.find(scheme_of(url)[0])(url)


def is_source(place: str) -> bool:
    """Return whether messages are read there, not files."""
    return scheme_of(place)[0] in SOURCES
