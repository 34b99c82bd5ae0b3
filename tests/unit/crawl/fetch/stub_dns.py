"""A name server of a few lines on 127.0.0.1:53, for a network namespace of our own. It lies as the test wants."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from ipaddress import ip_address

Answers = Callable[[str, int], list[str] | int | None]  # name and turn: addresses, an error code, or silence

NXDOMAIN, SERVFAIL = 3, 2
CNAME_LOOP = -1
_A, _CNAME, _AAAA = 1, 5, 28
_TRUNCATED = 0x0200


class StubDns:
    def __init__(self, answers: Answers, *, ttl: int = 60) -> None:
        self._answers, self._ttl = answers, ttl
        self.asked: dict[str, int] = {}  # lookups of A by name; AAAA is asked beside it
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 53))
        self._tcp = socket.create_server(("127.0.0.1", 53))
        for serve in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=serve, daemon=True).start()  # ends with the process, which ends with the namespace

    def _serve_udp(self) -> None:
        while True:
            query, client = self._udp.recvfrom(4096)
            reply = self._reply(query)
            if reply is not None and len(reply) > 512:
                reply = reply[:2] + struct.pack("!H", 0x8180 | _TRUNCATED) + query[4:6] + b"\0" * 6 + _question(query)
            if reply is not None:
                self._udp.sendto(reply, client)

    def _serve_tcp(self) -> None:
        while True:
            connection, _ = self._tcp.accept()
            with connection, connection.makefile("rb") as reader:
                while len(size := reader.read(2)) == 2:
                    reply = self._reply(reader.read(int.from_bytes(size, "big")), again=True)
                    if reply is not None:
                        connection.sendall(len(reply).to_bytes(2, "big") + reply)

    def _reply(self, query: bytes, *, again: bool = False) -> bytes | None:
        question = _question(query)
        name, kind = _name(question), int.from_bytes(question[-4:-2], "big")
        if kind == _A and not again:
            self.asked[name] = self.asked.get(name, 0) + 1
        answers = self._answers(name, self.asked.get(name, 1))
        if answers is None:
            return None
        records, count, code = b"", 0, 0
        if answers == CNAME_LOOP:
            records, count = struct.pack("!HHHIHH", 0xC00C, _CNAME, 1, 60, 2, 0xC00C), 1
        elif isinstance(answers, int):
            code = answers
        else:
            wanted = [ip_address(each).packed for each in answers]
            fitting = [each for each in wanted if len(each) == (4 if kind == _A else 16)]
            count = len(fitting)
            records = b"".join(struct.pack("!HHHIH", 0xC00C, kind, 1, self._ttl, len(each)) + each for each in fitting)
        return query[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, count, 0, 0) + question + records


def _question(query: bytes) -> bytes:
    end = query.index(b"\0", 12)
    return query[12 : end + 5]


def _name(question: bytes) -> str:
    labels, at = [], 0
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode("latin-1").lower())
        at += 1 + question[at]
    return ".".join(labels)
