"""A small web of many hosts, served in-process on real sockets. The tests crawl it and `webmill demo` shows it.

Every host and path is listed in docs/reference/test-web.md.
"""

from webmill.testing.exchange import (
    Answer,
    Cut,
    ExpectedPage,
    HttpReply,
    ReceivedRequest,
    ScriptedReply,
    SimulatedHost,
    Wait,
)
from webmill.testing.features.base import Feature
from webmill.testing.server import AnswerLimits
from webmill.testing.server_log import (
    LoggedVisit,
    ServerLog,
    most_at_once,
    read_visits,
    requests_per_host,
    smallest_gap,
)
from webmill.testing.web import TestWeb

__all__ = [
    "Answer",
    "AnswerLimits",
    "Cut",
    "ExpectedPage",
    "Feature",
    "HttpReply",
    "LoggedVisit",
    "ReceivedRequest",
    "ScriptedReply",
    "ServerLog",
    "SimulatedHost",
    "TestWeb",
    "Wait",
    "most_at_once",
    "read_visits",
    "requests_per_host",
    "smallest_gap",
]
