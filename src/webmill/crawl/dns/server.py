"""One name server: what it is asked, whether its replies are believed, and whether it seems to be there."""

from __future__ import annotations

import asyncio
import errno
import os

from webmill.crawl.dns.query import NameQuery, SentQuestion
from webmill.crawl.dns.sockets import QUESTIONS_PER_SOCKET, TcpStream, UdpSocket
from webmill.crawl.dns.system_files import ServerAddress
from webmill.errors import BadInput
from webmill.formats.dns import (
    FORMAT_ERROR,
    NO_ERROR,
    NO_SUCH_NAME,
    NOT_IMPLEMENTED,
    REFUSED,
    SERVER_FAILURE,
    decode_reply,
    is_reply_in_other_case,
    is_reply_to,
)

_SILENT_TIMES, _SILENT_SECONDS = 5, 3.0  # so many tries in a row without any reply: the server seems to be away
_PROBE_EVERY = 5.0  # seconds, to find out that it is back
_CODES = {
    FORMAT_ERROR: "FORMERR",
    SERVER_FAILURE: "SERVFAIL",
    NOT_IMPLEMENTED: "NOTIMP",
    REFUSED: "REFUSED",
}


class NameServer:
    """Asks one server. What is not the reply to a question leaves it waiting; see the table of the package."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self.strays = 0  # messages that were not believed
        self._udp: UdpSocket | None = None
        self._retired: list[UdpSocket] = []
        self._tcp = TcpStream(address, receive=self._receive_over_tcp, lost=self._lost_over_tcp)
        self._is_extended = self._keeps_case = True
        self._silent_tries, self._heard, self._probed = 0, 0.0, 0.0

    def ask(self, query: NameQuery, *, is_extended: bool) -> None:
        """Send the questions of a query that have no reply yet. OSError without a file descriptor."""
        random = int.from_bytes(os.urandom(32), "big") if self._keeps_case else 0
        is_extended = is_extended and self._is_extended
        for kind in query.missing:
            sent = SentQuestion(query, kind, query.question(kind, random=random), is_extended, query.tries)
            self._ask_over_udp(sent)

    def note_silence(self) -> None:
        self._silent_tries += 1

    def seems_away(self, now: float) -> bool:
        return self._silent_tries >= _SILENT_TIMES and now - self._heard > _SILENT_SECONDS

    def is_to_be_probed(self, now: float) -> bool:
        """Tell whether a server that seems away is to be asked first once more; and that it was."""
        if not self.seems_away(now) or now - self._probed < _PROBE_EVERY:
            return False
        self._probed = now
        return True

    def close(self) -> None:
        for sock in (*self._retired, *((self._udp,) if self._udp else ())):
            sock.close()
        self._tcp.close()

    def _ask_over_udp(self, sent: SentQuestion) -> None:
        sock = self._socket()
        if sock is None:
            sent.query.fail(sent, f"{self.address} cannot be reached", is_soft=True)
            return
        try:
            sock.ask(sent)
        except OSError as error:
            sock.fail_all(error)
            self._lost_over_udp(sent, error)

    def _socket(self) -> UdpSocket | None:
        """Return a socket whose port is not old; None when there is no way to the server."""
        if self._udp and self._udp.is_open and self._udp.sent < QUESTIONS_PER_SOCKET:
            return self._udp
        if self._udp:
            self._retired.append(self._udp)
            self._udp = None
        for done in [sock for sock in self._retired if sock.is_done]:
            done.close()
        self._retired = [sock for sock in self._retired if sock.is_open]
        try:
            self._udp = UdpSocket(self.address, receive=self._receive_over_udp, lost=self._lost_over_udp)
        except OSError as error:
            if is_out_of_files(error):
                raise
        return self._udp

    def _receive_over_udp(self, sent: SentQuestion, message: bytes) -> bool:
        if is_reply_to(sent.question, message):
            self._take(sent, message, over_tcp=False)
        elif is_reply_in_other_case(sent.question, message):
            self._ask_over_tcp(sent)
        elif sent.is_extended and len(message) == 12 and message[3] & 0x0F in (FORMAT_ERROR, NOT_IMPLEMENTED):
            self._ask_without_extension(sent)  # some do not even repeat a question that they do not understand
        else:
            self.strays += 1
            return False
        return True

    def _receive_over_tcp(self, sent: SentQuestion, message: bytes) -> bool:
        if not is_reply_to(sent.question, message):
            if not is_reply_in_other_case(sent.question, message):
                self.strays += 1
                return False
            self._keeps_case = False  # it is the server itself that does it
            sent.question = message[12 : 12 + len(sent.question)]
        self._take(sent, message, over_tcp=True)
        return True

    def _take(self, sent: SentQuestion, message: bytes, *, over_tcp: bool) -> None:
        self._heard, self._silent_tries = asyncio.get_running_loop().time(), 0
        sent.query.has_heard = True
        try:
            reply = decode_reply(message, sent.question)
        except BadInput as error:
            sent.query.fail(sent, error.message)
            return
        if reply.is_cut and not over_tcp:
            self._ask_over_tcp(sent)
        elif reply.code in (FORMAT_ERROR, NOT_IMPLEMENTED) and sent.is_extended:
            self._ask_without_extension(sent)
        elif reply.is_cut or reply.code not in (NO_ERROR, NO_SUCH_NAME):
            why = _CODES.get(reply.code, "cut, also over TCP" if reply.is_cut else f"code {reply.code}")
            sent.query.fail(sent, f"the name server {self.address} says {why}", is_soft=reply.code == REFUSED)
        else:
            sent.query.take(sent.kind, reply)

    def _ask_without_extension(self, sent: SentQuestion) -> None:
        self._is_extended = sent.is_extended = False
        self._ask_over_udp(sent)

    def _ask_over_tcp(self, sent: SentQuestion) -> None:
        self._heard, self._silent_tries = asyncio.get_running_loop().time(), 0
        sent.is_extended = False
        sent.tries_over_tcp += 1
        self._tcp.ask(sent)

    def _lost_over_udp(self, sent: SentQuestion, error: OSError) -> None:
        sent.query.fail(sent, f"the name server {self.address}: {error.strerror or error}", is_soft=True)

    def _lost_over_tcp(self, sent: SentQuestion, error: OSError) -> None:
        if sent.tries_over_tcp < 2 and not is_out_of_files(error):  # servers close connections as they like
            self._ask_over_tcp(sent)
        else:
            self._lost_over_udp(sent, error)


def is_out_of_files(error: OSError) -> bool:
    return error.errno in (errno.EMFILE, errno.ENFILE)
