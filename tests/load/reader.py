"""A well-behaved client: reads pages, asks APIs, replays captures, over connections that it keeps, and pauses."""

from __future__ import annotations

import random
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from urllib.parse import quote

from msgspec import Struct, field

from tests.load.client_loop import Client, Reply, TimedOut, Wait, connect, read_reply, send, sleep
from tests.load.served_collection import NAME, WORDS, Targets

DEADLINE = 30.0  # seconds for an answer
FORGET_AFTER = 12.0  # seconds that it keeps a connection it does not use; the server's patience is longer
REQUEST = (
    "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: reader\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n"
    "Sec-Fetch-Dest: iframe\r\n\r\n"
)
Choice = Callable[[random.Random, Targets], str]


def _capture(rng: random.Random, there: Targets) -> str:
    number = rng.randrange(len(there.urls))
    return f"{there.timestamps[number]}/{there.urls[number]}"


def _url(rng: random.Random, there: Targets) -> str:
    return quote(rng.choice(there.urls), safe="")


# kind: (weight, path); paths that begin with "replay:" are on the other origin
MIX: dict[str, tuple[int, Choice]] = {
    "overview": (8, lambda _r, _t: "/"),
    "search": (15, lambda r, _: f"/search?q={'+'.join(r.sample(WORDS, r.choice((1, 1, 2))))}"),
    "search as JSON": (5, lambda r, _: f"/api/search?q={r.choice(WORDS)}"),
    "documents": (8, lambda r, _: f"/documents?page={r.randrange(1, 40)}"),
    "history": (8, lambda r, t: f"/history?url={_url(r, t)}"),
    "versions": (2, lambda _r, _t: "/versions"),
    "CDX, a page": (12, lambda r, t: f"/{NAME}-index?url={_url(r, t)}&output=json"),
    "CDX, a host": (3, lambda r, t: f"/{NAME}-index?url={quote(r.choice(t.urls).split('/')[2])}%2F*&limit=50"),
    "replay frame": (5, lambda r, t: f"/web/{_capture(r, t)}"),
    "replay": (10, lambda r, t: f"replay:/web/{_capture(r, t)}"),
    "capture": (5, lambda r, t: f"/raw/{_capture(r, t)}"),
    "blob": (15, lambda r, t: f"/blobs/sha256/{r.choice(t.blobs)}.json"),
    "latest.json": (4, lambda _r, _t: "/latest.json"),
}
STATUS = {"replay frame": 302}  # to the banner in the zone; of all others 200
KINDS, WEIGHTS = list(MIX), [weight for weight, _ in MIX.values()]


class Tally(Struct):
    """What all readers of a process have seen."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # of answered requests, by kind
    refused: Counter[str] = field(default_factory=Counter)  # requests without an answer, by "kind: why"
    again: int = 0  # requests sent again because the server had closed the idle connection

    @property
    def answered(self) -> int:
        return sum(map(len, self.seconds.values()))

    @property
    def asked(self) -> int:
        return self.answered + self.refused.total()


def reader_address(number: int) -> str:
    """Return the address of a reader: all of 127.0.0.0/8 are this machine's."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


class Reader:
    """One client. `think` is the mean pause between two requests, in seconds."""

    def __init__(
        self, source: str, *, ports: tuple[int, int], there: Targets, tally: Tally, think: float, counts_from: float
    ) -> None:
        self._source = source
        self._rng = random.Random(source)
        self._ports, self._there, self._tally, self._think = ports, there, tally, think
        self._counts_from = counts_from
        self._kept: dict[int, tuple[socket.socket, float]] = {}  # by port, with the time of its last use

    def live(self) -> Client:
        try:
            yield from sleep(self._rng.uniform(0, self._think))
            while True:
                yield from self._ask()
                yield from sleep(min(self._rng.expovariate(1 / self._think), 4 * self._think))
        finally:
            for connection, _ in self._kept.values():
                connection.close()

    def _ask(self) -> Generator[Wait, None, None]:
        kind = self._rng.choices(KINDS, WEIGHTS)[0]
        path = MIX[kind][1](self._rng, self._there)
        port = self._ports[path.startswith("replay:")]
        began = time.monotonic()
        try:
            reply = yield from self._fetch(port, path.removeprefix("replay:"), began + DEADLINE)
            why = "" if reply.status == STATUS.get(kind, 200) else str(reply.status)
        except TimedOut:
            why = "no answer in time"
        except OSError as error:
            why = f"connection: {error.strerror or 'closed'}"
        if began < self._counts_from:
            return
        if why:
            self._tally.refused[f"{kind}: {why}"] += 1
        else:
            self._tally.seconds[kind].append(time.monotonic() - began)

    def _fetch(self, port: int, path: str, deadline: float) -> Generator[Wait, None, Reply]:
        """Ask on the kept connection; once more on a new one if the server has just closed it, as browsers do."""
        data = REQUEST.format(path, f"127.0.0.1:{port}").encode()
        kept = self._take_kept(port)
        if kept:
            try:
                return (yield from self._exchange(kept, port, data, deadline))
            except ConnectionError as error:
                if error.args[0] not in (0, 32, 104):  # it had begun to answer
                    raise
                self._tally.again += 1
        new = yield from connect(("127.0.0.1", port), self._source, deadline=deadline)
        return (yield from self._exchange(new, port, data, deadline))

    def _exchange(self, one: socket.socket, port: int, data: bytes, deadline: float) -> Generator[Wait, None, Reply]:
        try:
            yield from send(one, data, deadline=deadline)
            reply = yield from read_reply(one, deadline=deadline)
        except BaseException:
            one.close()
            raise
        if reply.keep_alive:
            self._kept[port] = (one, time.monotonic())
        else:
            one.close()
        return reply

    def _take_kept(self, port: int) -> socket.socket | None:
        one, used = self._kept.pop(port, (None, 0.0))
        if one and time.monotonic() - used > FORGET_AFTER:
            one.close()
            return None
        return one
