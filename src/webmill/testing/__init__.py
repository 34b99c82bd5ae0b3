"""A small web of many hosts, served in-process on real sockets: what the tests crawl and `webmill demo` shows.

What answers where: docs/reference/test-web.md.
"""

from webmill.testing.exchange import Answer, Cut, Page, Reply, Request, Script, Site, Wait
from webmill.testing.features.base import Feature
from webmill.testing.log import ServerLog, Visit, most_at_once, read_visits, requests_per_host, smallest_gap
from webmill.testing.server import Limits
from webmill.testing.web import TestWeb

__all__ = [
    "Answer",
    "Cut",
    "Feature",
    "Limits",
    "Page",
    "Reply",
    "Request",
    "Script",
    "ServerLog",
    "Site",
    "TestWeb",
    "Visit",
    "Wait",
    "most_at_once",
    "read_visits",
    "requests_per_host",
    "smallest_gap",
]
