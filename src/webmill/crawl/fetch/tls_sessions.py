"""TLS sessions of earlier connections, so that the next handshake with a host is a short one.

A session belongs to the context that made it, hence to one policy: one of a connection that was not verified is never
offered on a connection that is. It comes from a whole handshake, and is offered for an hour at most: no certificate
counts longer without being looked at.

Taking a session costs 0.3 ms, as OpenSSL writes it out and reads it again, and resuming one saves 0.4 ms. So it is
taken from hosts that are connected a second time only, and offered more than once. A server that does not resume what
it is offered is left alone.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable

from msgspec import Struct

MAX_SESSIONS = 2000  # hosts; a session takes 3 to 14 KB, with the largest ticket that TLS allows 64 KB more
KEEP_SESSION = 3600.0  # seconds
MAX_CERTIFICATE = 16 * 1024  # bytes; a session holds the certificate
MAX_REFUSALS = 2  # in a row


class _HostSession(Struct):
    """What is known of a host: that it was connected, and maybe its session."""

    until: float  # when it is forgotten
    session: ssl.SSLSession | None = None
    session_until: float = 0.0
    refusals: int = 0


class TlsSessions:
    """The sessions of one context: bounded, the hosts that were connected longest ago are forgotten first."""

    def __init__(
        self, *, size: int = MAX_SESSIONS, keep: float = KEEP_SESSION, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._size, self._keep, self._clock = size, keep, clock
        self._hosts: dict[str, _HostSession] = {}

    def __len__(self) -> int:
        return sum(known.session is not None for known in self._hosts.values())

    def offer(self, host: str) -> ssl.SSLSession | None:
        """Return the session to resume with this host."""
        known = self._hosts.get(host)
        return known.session if known is not None and known.session_until > self._clock() else None

    def learn(self, host: str, connection: ssl.SSLObject) -> None:
        """Learn from a connection to the host that has had an answer: TLS 1.3 sends a session after the handshake."""
        now, known = self._clock(), self._hosts.pop(host, None)
        if known is None or known.until <= now:
            known = _HostSession(until=now + self._keep)
        elif connection.session_reused:
            known.refusals = 0
        else:
            self._learn_from_whole_handshake(known, connection, now=now)
        while len(self._hosts) >= self._size:
            del self._hosts[next(iter(self._hosts))]
        self._hosts[host] = known

    def _learn_from_whole_handshake(self, known: _HostSession, connection: ssl.SSLObject, *, now: float) -> None:
        if known.session is not None and known.session_until > now:
            known.refusals += 1
        known.session = None
        if known.refusals >= MAX_REFUSALS or len(connection.getpeercert(binary_form=True) or b"") > MAX_CERTIFICATE:
            return
        session = connection.session
        if session is not None:
            lifetime = session.ticket_lifetime_hint or session.timeout
            known.session, known.session_until = session, now + min(lifetime, self._keep)
            known.until = now + self._keep

    def drop(self, host: str) -> bool:
        """Forget the session of a host. Return whether it was offered."""
        was_offered = self.offer(host) is not None
        if was_offered:
            self._hosts[host].session = None
            self._hosts[host].refusals += 1
        return was_offered


class ResumingContext(ssl.SSLContext):
    """A context for clients whose connections offer the session of an earlier one to the same host.

    asyncio and uvloop make the objects that encrypt with `wrap_bio`, and have no other place for a session.
    """

    sessions: TlsSessions

    @classmethod
    def for_clients(cls) -> ResumingContext:
        """Return a context that checks certificates with the system's store."""
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        context.sessions = TlsSessions()
        return context

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002  as the standard library has it
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        offered = self.sessions.offer(server_hostname) if isinstance(server_hostname, str) else session
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, offered)


def learn_session(connection: ssl.SSLObject) -> None:
    """Learn the session of a connection, if its context keeps sessions."""
    context, host = connection.context, connection.server_hostname
    if isinstance(context, ResumingContext) and host is not None:
        context.sessions.learn(host, connection)
