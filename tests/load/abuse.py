"""Abusive clients of `webmill serve`, by kind: floods, heavy queries, slow readers and writers, connection hogs.

Each is a generator for `ClientLoop` that goes on for ever, without a pause, whatever it is answered.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable, Generator
from urllib.parse import quote

from msgspec import Struct

from tests.load.client_loop import Client, TimedOut, Wait, connect, read_reply, receive, send, sleep
from tests.load.served_collection import NAME, WORDS, Targets

DEADLINE = 60.0
PAUSE = 0.05  # seconds after a connection that failed
HELD = 10  # connections of a client that holds them


class Abuser(Struct):
    """Who does it: its address, the two ports of the server, what there is."""

    source: str
    ports: tuple[int, int]
    there: Targets
    rng: random.Random
    sent: int = 0  # requests and connections

    def connect(self, *, replay: bool = False) -> Generator[Wait, None, socket.socket]:
        self.sent += 1
        address = ("127.0.0.1", self.ports[replay])
        return (yield from connect(address, self.source, deadline=time.monotonic() + DEADLINE))

    def head(self, path: str, *, method: str = "GET", more: str = "", replay: bool = False) -> bytes:
        self.sent += 1
        return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.ports[replay]}\r\n{more}\r\n".encode()

    def url(self) -> str:
        return quote(self.rng.choice(self.there.urls), safe="")

    def capture(self) -> str:
        number = self.rng.randrange(len(self.there.urls))
        return f"{self.there.timestamps[number]}/{self.there.urls[number]}"


Abuse = Callable[[Abuser], Client]


def for_ever(once: Abuse) -> Abuse:
    """Return `once`, again and again, whatever happens to its connection."""

    def repeated(who: Abuser) -> Client:
        while True:
            try:
                yield from once(who)
            except (OSError, TimedOut):
                yield from sleep(PAUSE)

    return repeated


def flood(path: Callable[[Abuser], str], *, method: str = "GET", more: str = "", replay: bool = False) -> Abuse:
    """Return a client that asks again as soon as it is answered, over one connection as long as it lasts."""

    def asking(who: Abuser) -> Client:
        one = yield from who.connect(replay=replay)
        try:
            while True:
                deadline = time.monotonic() + DEADLINE
                yield from send(one, who.head(path(who), method=method, more=more, replay=replay), deadline=deadline)
                if method == "HEAD":
                    if not (yield from receive(one, deadline=deadline)):
                        return
                elif not (yield from read_reply(one, deadline=deadline)).keep_alive:
                    return
        finally:
            one.close()

    return for_ever(asking)


def heavy_search(who: Abuser) -> str:
    words = " OR ".join(who.rng.sample(WORDS, 6)) + " " + " ".join(f"-x{who.rng.random()}" for _ in range(20))
    return f"/search?q={quote(words)}&sort=newest&page=500"


def wildcard_search(who: Abuser) -> str:
    return f"/api/search?limit=100&offset=9000&q={quote(' '.join(f'{chr(97 + n)}*' for n in range(20)))}{who.sent}"


def cdx_filter(who: Abuser) -> str:
    pattern = quote(f"~url:(a|b|c)*{who.sent}(x|y)*z")
    return f"/{NAME}-index?url=*.example&filter={pattern}&filter=~mime:.*q.*&output=json"


def cdx_all(who: Abuser) -> str:
    return f"/cdx?url=*.{who.rng.choice(('example', 'test'))}&output=json&limit={100_000 - who.sent % 100}"


FLOODS: dict[str, Abuse] = {
    "heavy searches": flood(heavy_search),
    "searches with wildcards": flood(wildcard_search),
    "CDX of all with filters that match nothing": flood(cdx_filter),
    "CDX of a whole top-level domain": flood(cdx_all),
    "CDX pages": flood(lambda who: f"/{NAME}-index?url=*.example&page={who.rng.randrange(3)}&output=json"),
    "histories of a domain": flood(lambda _: "/history?url=*.example&match=domain"),
    "differences of versions": flood(lambda _: "/versions/diff"),
    "documents, the last page": flood(lambda who: f"/api/documents?limit=1000&offset={who.rng.randrange(7000)}"),
    "the overview": flood(lambda _: "/"),
    "health": flood(lambda _: "/healthz"),
    "metrics": flood(lambda _: "/metrics"),
    "addresses that do not exist": flood(lambda who: f"/no/such/page/{who.sent}"),
    "blobs": flood(lambda who: f"/blobs/sha256/{who.rng.choice(who.there.blobs)}.json"),
    "captures": flood(lambda who: f"/raw/{who.capture()}"),
    "replay": flood(lambda who: f"/web/{who.capture()}", more="Sec-Fetch-Dest: iframe\r\n", replay=True),
    "ranges of an archive": flood(
        lambda who: f"/{who.rng.choice(who.there.archives)}", more="Range: bytes=1000-200000\r\n"
    ),
    "HEAD of everything": flood(lambda who: f"/history?url={who.url()}", method="HEAD"),
    "posts": flood(lambda _: "/tasks/retry", method="POST", more="Content-Length: 0\r\n"),
}


# --- connections ---


def idle(who: Abuser) -> Client:
    """Hold connections and say nothing."""
    held: list[socket.socket] = []
    try:
        while len(held) < HELD:
            held += [(yield from who.connect())]
        yield from receive(held[-1], deadline=time.monotonic() + DEADLINE)
    finally:
        for one in held:
            one.close()


def idle_after_one(who: Abuser) -> Client:
    """Hold connections that have asked once."""
    held = []
    try:
        for _ in range(HELD):
            one = yield from who.connect()
            held.append(one)
            yield from send(one, who.head("/healthz"), deadline=time.monotonic() + DEADLINE)
            yield from read_reply(one, deadline=time.monotonic() + DEADLINE)
        yield from receive(held[-1], deadline=time.monotonic() + DEADLINE)
    finally:
        for one in held:
            one.close()


def slowloris(who: Abuser) -> Client:
    """Send a head that never ends, a byte at a time, on several connections."""
    held = []
    try:
        for _ in range(HELD):
            one = yield from who.connect()
            held.append(one)
            yield from send(one, who.head("/")[:-2] + b"X: ", deadline=time.monotonic() + DEADLINE)
        while True:
            yield from sleep(0.5)
            for one in held:
                one.send(b"x")
    finally:
        for one in held:
            one.close()


def slow_body(who: Abuser) -> Client:
    """Announce a body and send it a byte at a time."""
    one = yield from who.connect()
    try:
        head = who.head("/tasks/retry", method="POST", more="Content-Length: 60000\r\n")
        yield from send(one, head, deadline=time.monotonic() + DEADLINE)
        while True:
            yield from sleep(0.5)
            one.send(b"x")
    finally:
        one.close()


def slow_reader(path: Callable[[Abuser], str]) -> Abuse:
    """Return a client that asks for much on several connections and reads 1 KB of it now and then."""

    def reading(who: Abuser) -> Client:
        held = []
        try:
            for _ in range(4):
                one = yield from who.connect()
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                held.append(one)
                yield from send(one, who.head(path(who)), deadline=time.monotonic() + DEADLINE)
            while True:
                yield from sleep(0.5)
                for one in held:
                    if not (yield from receive(one, deadline=time.monotonic() + DEADLINE, size=1024)):
                        return
        finally:
            for one in held:
                one.close()

    return for_ever(reading)


def churn(who: Abuser) -> Client:
    """Connect and hang up."""
    (yield from who.connect()).close()


def churn_with_request(who: Abuser) -> Client:
    """Connect, ask once, hang up when answered."""
    one = yield from who.connect()
    try:
        head = who.head(f"/history?url={who.url()}", more="Connection: close\r\n")
        yield from send(one, head, deadline=time.monotonic() + DEADLINE)
        yield from read_reply(one, deadline=time.monotonic() + DEADLINE)
    finally:
        one.close()


def ask_and_reset(who: Abuser) -> Client:
    """Ask for something heavy and vanish by a reset."""
    one = yield from who.connect()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    try:
        yield from send(one, who.head(heavy_search(who)), deadline=time.monotonic() + DEADLINE)
        yield from sleep(0.005)
    finally:
        one.close()


def pipeline(who: Abuser) -> Client:
    """Send requests without waiting for answers, and read none."""
    one = yield from who.connect()
    try:
        while True:
            data = b"".join(who.head(cdx_all(who)) for _ in range(15))
            yield from send(one, data, deadline=time.monotonic() + 5)
            yield from sleep(0.01)
    finally:
        one.close()


def sends(data: Callable[[Abuser], bytes]) -> Abuse:
    """Return a client that sends this on a connection, reads what comes and does it again."""

    def sending(who: Abuser) -> Client:
        one = yield from who.connect()
        try:
            yield from send(one, data(who), deadline=time.monotonic() + DEADLINE)
            while (yield from receive(one, deadline=time.monotonic() + DEADLINE)):
                pass
        finally:
            one.close()

    return for_ever(sending)


CONNECTIONS: dict[str, Abuse] = {
    "idle connections": for_ever(idle),
    "idle connections that have asked": for_ever(idle_after_one),
    "slowloris": for_ever(slowloris),
    "bodies a byte at a time": for_ever(slow_body),
    "slow readers of archives": slow_reader(lambda who: f"/{who.rng.choice(who.there.archives)}"),
    "slow readers of the CDX API": slow_reader(cdx_all),
    "connections that hang up": for_ever(churn),
    "a connection for each request": for_ever(churn_with_request),
    "heavy requests and a reset": for_ever(ask_and_reset),
    "requests without reading": for_ever(pipeline),
    "heads of 1 MB": sends(lambda who: who.head("/", more=f"X: {'a' * 1_000_000}\r\n")),
    "thousands of headers": sends(lambda who: who.head("/", more="a: b\r\n" * 5000)),
    "bodies of 1 MB": sends(
        lambda who: who.head("/tasks/retry", method="POST", more="Content-Length: 1000000\r\n") + b"x" * 1_000_000
    ),
    "no HTTP": sends(lambda who: bytes(who.rng.randrange(256) for _ in range(200))),
    "TLS on a plain port": sends(lambda _: bytes.fromhex("16030100c8010000c40303") + bytes(200)),
    "chunks of one byte": sends(
        lambda who: (
            who.head("/tasks/retry", method="POST", more="Transfer-Encoding: chunked\r\n") + b"1;x=y\r\nz\r\n" * 20_000
        )
    ),
}

ABUSES: dict[str, Abuse] = FLOODS | CONNECTIONS
