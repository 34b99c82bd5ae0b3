"""A name server on loopback that is as its zone says: honest, silent, slow, lying, truncating.

def zone(name: str, kind: int) -> ZoneAnswer:
    return ZoneAnswer(addresses=("127.0.0.1",))

with SimulatedNameServer(zone) as server:
    ...  # ask 127.0.0.1, port server.port, over UDP and TCP; server.asked says what was asked
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address
from typing import Literal, Self

import msgspec

from webmill.formats.dns import AAAA, CNAME, NO_ERROR, NO_SUCH_NAME, SOA, A, encode_name

Lie = Literal["id", "question", "source", "case", "garbage", "stranger", "pointer", "short_address"]
Zone = Callable[[str, int], "ZoneAnswer"]

_LARGEST_UDP = 512
_IN = b"\0\1"
_SAME_NAME = b"\xc0\x0c"  # a pointer to the question
WRONG_ADDRESS = "192.0.2.66"  # what lies lead to


class ZoneAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says of a name and a type. Lies come before the answer, or instead of it if that is silent."""

    code: int = NO_ERROR
    addresses: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()  # one leads to the next, and the last one has the addresses
    ttl: int = 60
    missing_ttl: int | None = None  # the minimum of the zone's SOA; None: none is sent
    delay: float = 0.0
    is_silent: bool = False
    is_cut: bool = False  # over UDP only the question comes back
    knows_edns: bool = True
    lies: tuple[Lie, ...] = ()


NOT_FOUND = ZoneAnswer(code=NO_SUCH_NAME, missing_ttl=60)


class Asked(msgspec.Struct, frozen=True):
    """A question that was put to the server."""

    name: str
    kind: int
    over_tcp: bool
    port: int


class SimulatedNameServer:
    """Answers on a port of 127.0.0.1, over UDP and TCP, from a thread of its own. `port` 0 chooses a free one."""

    def __init__(self, zone: Zone, *, port: int = 0) -> None:
        self._zone = zone
        self.asked: list[Asked] = []
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._tcp = _bind_both(self._udp, port)
        self.port: int = self._udp.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def count(self, name: str, kind: int = A) -> int:
        return sum(asked.name == name and asked.kind == kind for asked in self.asked)

    def _run(self) -> None:
        self._udp.setblocking(False)
        self._loop.add_reader(self._udp, self._read)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._tcp))
        self._loop.call_soon(self._started.set)
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.remove_reader(self._udp)
        self._udp.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    # --- UDP ---

    def _read(self) -> None:
        while True:
            try:
                query, client = self._udp.recvfrom(4096)
            except OSError:
                return
            answer = self._answer(query, client[1], over_tcp=False)
            if answer.delay:
                self._loop.call_later(answer.delay, self._reply, query, client, answer)
            else:
                self._reply(query, client, answer)

    def _reply(self, query: bytes, client: tuple[str, int], answer: ZoneAnswer) -> None:
        for lie in answer.lies:
            self._lie(query, client, lie)
        if answer.is_silent:
            return
        if not answer.knows_edns and query[11]:
            self._send(query[:2] + b"\x80\x01" + bytes(8), client)
            return
        message = encode_answer(query, answer)
        if answer.is_cut or len(message) > _LARGEST_UDP:
            message = query[:2] + b"\x83\x80" + query[4:6] + bytes(6) + question_of(query)
        self._send(message, client)

    def _lie(self, query: bytes, client: tuple[str, int], lie: Lie) -> None:
        wrong = ZoneAnswer(addresses=(WRONG_ADDRESS,), ttl=86400)
        if lie == "id":
            for number in range(8):
                self._send(number.to_bytes(2, "big") + encode_answer(query, wrong)[2:], client)
        elif lie == "question":
            other = query[:12] + encode_name("other.example") + question_of(query)[-4:]
            self._send(encode_answer(other, wrong), client)
        elif lie == "case":
            self._send(encode_answer(query[:12] + question_of(query).lower(), wrong), client)
        elif lie == "garbage":
            self._send(query[:2] + b"\x81\x80" + b"\xff" * 40, client)
            self._send(b"\0", client)
        elif lie == "source":
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other_port:
                other_port.sendto(encode_answer(query, wrong), client)
        else:
            self._send(encode_lie(query, lie), client)

    def _send(self, message: bytes, client: tuple[str, int]) -> None:
        try:
            self._udp.sendto(message, client)
        except OSError:
            pass  # the client's queue is full, or it is gone

    # --- TCP ---

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("peername")[1]
        try:
            while True:
                query = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
                answer = self._answer(query, port, over_tcp=True)
                if not answer.is_silent:
                    message = encode_answer(query, answer)
                    framed = len(message).to_bytes(2, "big") + message
                    self._loop.call_later(answer.delay, writer.write, framed)  # others are answered meanwhile
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    def _answer(self, query: bytes, port: int, *, over_tcp: bool) -> ZoneAnswer:
        question = question_of(query)
        name, kind = name_of(question), int.from_bytes(question[-4:-2], "big")
        self.asked.append(Asked(name, kind, over_tcp, port))
        return self._zone(name, kind)


def question_of(query: bytes) -> bytes:
    return query[12 : query.index(b"\0", 12) + 5]


def name_of(question: bytes) -> str:
    """Return the name of a question, in small letters."""
    labels, at = [], 0
    while size := question[at]:
        labels.append(question[at + 1 : at + 1 + size].decode("latin-1").lower())
        at += size + 1
    return ".".join(labels)


def encode_answer(query: bytes, answer: ZoneAnswer) -> bytes:
    """Return the message that answers a query."""
    question = question_of(query)
    kind = int.from_bytes(question[-4:-2], "big")
    records, owner = [], _SAME_NAME
    for alias in answer.aliases:
        records.append(_record(owner, CNAME, answer.ttl, encode_name(alias)))
        owner = encode_name(alias)
    packed = [ip_address(ip).packed for ip in answer.addresses]
    records += [_record(owner, kind, answer.ttl, ip) for ip in packed if len(ip) == {A: 4, AAAA: 16}.get(kind)]
    authority = b"" if answer.missing_ttl is None else _soa(answer.missing_ttl)
    counts = b"".join(number.to_bytes(2, "big") for number in (1, len(records), bool(authority), 0))
    return query[:2] + bytes((0x81, 0x80 | answer.code)) + counts + question + b"".join(records) + authority


def encode_lie(query: bytes, lie: Lie) -> bytes:
    """Return a message for the question, from the right server, that nobody should believe."""
    question = question_of(query)
    head = query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question
    if lie == "stranger":  # an address, but of another name
        return head + _record(encode_name("other.example"), A, 86400, ip_address(WRONG_ADDRESS).packed)
    if lie == "pointer":  # a name that is its own end
        return head + _record((0xC000 + len(head)).to_bytes(2, "big"), A, 86400, ip_address(WRONG_ADDRESS).packed)
    return head + _record(_SAME_NAME, int.from_bytes(question[-4:-2], "big"), 86400, b"\1\2\3")


def _record(owner: bytes, kind: int, ttl: int, content: bytes) -> bytes:
    return owner + kind.to_bytes(2, "big") + _IN + ttl.to_bytes(4, "big") + len(content).to_bytes(2, "big") + content


def _soa(minimum: int) -> bytes:
    numbers = b"".join(number.to_bytes(4, "big") for number in (1, 3600, 600, 86400, minimum))
    return _record(_SAME_NAME, SOA, 86400, encode_name("ns.example") + encode_name("admin.example") + numbers)


def _bind_both(udp: socket.socket, port: int) -> socket.socket:
    """Bind a UDP socket, and return a TCP socket of the same port."""
    for _ in range(100):
        tcp = socket.create_server(("127.0.0.1", port), backlog=128)
        try:
            udp.bind(tcp.getsockname())
        except OSError:
            tcp.close()
        else:
            return tcp
    raise OSError("no port is free for UDP and TCP")
