"""TLS: contexts for servers that are proper and for those that nobody looks after, and what was learnt of a server.

A certificate that was refused is remembered, so that an archive does not try the strict way first for each connection.
What is remembered is the certificate, not the server: another one is checked like that of any server.
"""

from __future__ import annotations

import ssl
import time
import warnings
from collections.abc import Callable
from hashlib import sha256
from typing import Literal

from msgspec import Struct

from webmill.crawl.fetch.tls_sessions import ResumingContext

TlsPolicy = Literal["verify", "archive"]
MAX_REFUSED = 10_000  # certificates
KEEP_REFUSED = 3600.0  # seconds; a certificate may become valid, and the system's store may be repaired
# Codes of OpenSSL's X509_V_ERR_*.
_REASONS = {
    9: "tls_expired",  # not yet valid
    10: "tls_expired",
    18: "tls_self_signed",
    19: "tls_self_signed",  # in its chain
    2: "tls_untrusted",
    20: "tls_untrusted",
    21: "tls_untrusted",
    62: "tls_host",
    63: "tls_host",
    64: "tls_host",
}


class TlsServer(Struct, frozen=True):
    """A server, as far as its certificate goes: the same name may have another one at another address."""

    host: str
    ip: str
    port: int


class _RefusedCertificate(Struct, frozen=True):
    digest: bytes
    until: float


class RefusedCertificates:
    """The certificates that were refused lately, each of one server: bounded, and forgotten after an hour."""

    def __init__(
        self, *, size: int = MAX_REFUSED, keep: float = KEEP_REFUSED, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._size, self._keep, self._clock = size, keep, clock
        self._known: dict[TlsServer, _RefusedCertificate] = {}  # the oldest first

    def is_known(self, server: TlsServer) -> bool:
        """Tell whether a certificate of this server was refused."""
        known = self._known.get(server)
        return known is not None and known.until > self._clock()

    def is_refused(self, server: TlsServer, certificate: bytes) -> bool:
        """Tell whether it is this certificate that was refused."""
        return self.is_known(server) and self._known[server].digest == sha256(certificate).digest()

    def add(self, server: TlsServer, certificate: bytes) -> None:
        self.forget(server)
        while len(self._known) >= self._size:
            del self._known[next(iter(self._known))]
        self._known[server] = _RefusedCertificate(sha256(certificate).digest(), self._clock() + self._keep)

    def forget(self, server: TlsServer) -> None:
        self._known.pop(server, None)


class HttpOneHosts:
    """Hosts that are not offered HTTP/2, as they failed at it lately: bounded, and forgotten after an hour."""

    def __init__(
        self, *, size: int = MAX_REFUSED, keep: float = KEEP_REFUSED, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._size, self._keep, self._clock = size, keep, clock
        self._until: dict[str, float] = {}  # the oldest first

    def __contains__(self, host: str) -> bool:
        return self._until.get(host, 0.0) > self._clock()

    def add(self, host: str) -> None:
        self._until.pop(host, None)
        while len(self._until) >= self._size:
            del self._until[next(iter(self._until))]
        self._until[host] = self._clock() + self._keep


class TlsContexts(Struct, frozen=True):
    """What a handshake is made with: the second one takes what the first refuses, if anything shall."""

    strict: ResumingContext
    lenient: ResumingContext | None


def make_contexts(policy: TlsPolicy, *, http2: bool) -> TlsContexts:
    """Return the contexts of a policy, which offer HTTP/2 or do not."""
    contexts = TlsContexts(strict_context(), lenient_context() if policy == "archive" else None)
    for context in (contexts.strict, contexts.lenient):
        if context is not None:
            context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
    return contexts


def strict_context() -> ResumingContext:
    """Return a context that checks the certificate with the system's store (or SSL_CERT_FILE, SSL_CERT_DIR) and the
    name; TLS 1.2 and later."""
    context = ResumingContext.for_clients()
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # a default of some builds; no browser is so strict
    return context


def lenient_context() -> ResumingContext:
    """Return a context for anything that encrypts: archives keep pages of servers that nobody looks after any more."""
    context = ResumingContext.for_clients()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.options |= 0x4  # SSL_OP_LEGACY_SERVER_CONNECT, which Python names from 3.12 on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # deprecated for good reason, and wanted here
        context.minimum_version = ssl.TLSVersion.TLSv1
    return context


def tls_reason(error: ssl.SSLError | ssl.CertificateError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _REASONS.get(error.verify_code, "tls_other")
    return "tls_other"
