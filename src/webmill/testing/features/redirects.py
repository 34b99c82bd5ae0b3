"""Redirects: proper ones, chains, loops, and those that must not be followed (N03, N14)."""

from __future__ import annotations

from webmill.testing.exchange import Answer, HttpReply, ReceivedRequest
from webmill.testing.features.base import Feature, HostFeatures, page, whole_number

HOST = "moved.mill.example"

_ODD = (
    ("/relative", "target", "a relative reference"),
    ("/fragment", "/target#part", "with a fragment"),
    ("/to-host", "http://files.mill.example/headers", "to another host, which shows the request's fields"),
    ("/to-unknown", "http://nowhere.names.test/", "to a name that does not resolve"),
    ("/to-private-name", "http://private.names.test/", "to a name that resolves to 10.0.0.8"),
    ("/to-private", "http://10.0.0.8/", "to a private address"),
    ("/to-metadata", "http://169.254.169.254/latest/meta-data/", "to a link-local address"),
    ("/to-loopback", "http://127.0.0.1:1/", "to loopback"),
    ("/to-loopback-short", "http://127.1:1/", "to loopback, written short"),
    ("/to-loopback-decimal", "http://2130706433:1/", "to loopback, written as one number"),
    ("/to-loopback-v6", "http://[::ffff:7f00:1]:1/", "to loopback, as a mapped IPv6 address"),
    ("/to-port", "http://moved.mill.example:6379/", "to a port that is not a web server's"),
    ("/to-file", "file:///etc/passwd", "to a file"),
    ("/to-ftp", "ftp://moved.mill.example/", "to ftp"),
    ("/to-gopher", "gopher://moved.mill.example:70/1", "to gopher"),
    ("/to-data", "data:text/html,hello", "to data"),
    ("/to-javascript", "javascript:alert(1)", "to javascript"),
    ("/to-credentials", "http://user:secret@moved.mill.example/target", "with user and password"),
    ("/to-raw-bytes", "/m\xc3\xbchle", "with raw UTF-8 bytes in the field"),
    ("/to-long", "/" + "a" * 9000, "to a URL of 9,000 characters"),
    ("/to-nothing", "", "with an empty Location"),
)


def features() -> list[Feature]:
    table = HostFeatures(HOST)
    for status in (301, 302, 303, 307, 308):
        table.put(f"/{status}", f"{status} to /target", _to("/target", status=status))
    table.put("/target", "where the proper ones lead", page("Target"))
    table.add("/chain/*", "N more redirects, then /target", _chain, start="/chain/5")
    table.put("/loop/a", "302 to /loop/b", _to("/loop/b"))
    table.put("/loop/b", "302 to /loop/a", _to("/loop/a"))
    table.put("/self", "302 to itself", _to("/self"))
    table.add("/forever/*", "302 to the next number, for ever", _forever, start="/forever/1")
    for path, location, description in _ODD:
        table.put(path, f"302 {description}", _to(location))
    table.put("/no-location", "302 without Location", HttpReply(status=302))
    table.put("/two-locations", "302 with two different Locations", HttpReply(status=302, headers=_TWO))
    table.put(
        "/refresh-field", "200 with `Refresh: 0; url=/target`", HttpReply(headers=(("Refresh", "0; url=/target"),))
    )
    table.put("/refresh-meta", "200, meta refresh to /target", _refresh("/target"))
    table.put("/refresh-loop", "200, meta refresh to itself", _refresh("/refresh-loop"))
    return table.features


_TWO = (("Location", "/target"), ("Location", "http://mill.example/"))


def _to(location: str, *, status: int = 302) -> HttpReply:
    return HttpReply(status=status, headers=(("Location", location),), body=b"moved\n")


def _chain(request: ReceivedRequest) -> Answer:
    left = whole_number(request.path.removeprefix("/chain/"), default=1, most=1000)
    return _to(f"/chain/{left - 1}" if left > 1 else "/target")


def _forever(request: ReceivedRequest) -> Answer:
    number = whole_number(request.path.removeprefix("/forever/"), default=0, most=10**8)
    return _to(f"/forever/{number + 1}")


def _refresh(to: str) -> HttpReply:
    return page("Refresh", head=f'<meta http-equiv="refresh" content="0; url={to}">\n')
