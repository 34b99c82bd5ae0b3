"""Webhooks: a POST of JSON, signed, to an address that was vetted before it is connected.

    X-Webmill-Delivery    the id of the message, the same each time it is sent; also as Idempotency-Key
    X-Webmill-Timestamp   when it was sent, in seconds since 1970
    X-Webmill-Signature   sha256= and the hex HMAC-SHA256, with the secret, of the timestamp, a dot and the body

Any 2xx status means that it was taken over. Redirects are not followed: they could lead anywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from urllib.parse import urlsplit

from webmill.errors import Misconfigured, Unavailable
from webmill.infra.notify.base import Notification, NotifyOptions
from webmill.infra.public_addresses import NAT64_NAME, is_public, leads_to_private, nat64_prefixes
from webmill.masking import hide_target

CONNECT, DEADLINE = 10.0, 30.0  # seconds
_SECONDS = re.compile("[0-9]{1,9}")


def open_webhook(address: str, options: NotifyOptions) -> Webhook:
    return Webhook(address, options)


class Webhook:
    def __init__(self, address: str, options: NotifyOptions, *, clock: Callable[[], float] = time.time) -> None:
        self._shown, self._options, self._clock = hide_target(address), options, clock
        try:
            parts = urlsplit(address)
            host, port = parts.hostname or "", parts.port
            self._host = host.encode("idna").decode() if host and not host.isascii() else host
        except ValueError:
            raise Misconfigured(f"the webhook {self._shown} is not a URL") from None
        if not self._host or parts.username is not None:
            raise Misconfigured(f"the webhook {self._shown} needs a host, and no user name: tokens belong in its path")
        self._is_secure = parts.scheme.lower() == "https"
        self._port = port or (443 if self._is_secure else 80)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not self._target.isascii() or any(character <= " " for character in self._target):
            raise Misconfigured(f"the webhook {self._shown} has characters that must be written as %XX")

    def send(self, notification: Notification) -> None:
        try:
            with self._connected() as connection:
                connection.request("POST", self._target, notification.payload, self._headers(notification))
                with closing(connection.getresponse()) as reply:
                    self._check(reply.status, reply.headers)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{self._shown}: {_describe(error)}") from None  # whose text may have the address

    def _headers(self, notification: Notification) -> dict[str, str]:
        sent = str(int(self._clock()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": self._options.user_agent,
            "X-Webmill-Delivery": notification.id,
            "Idempotency-Key": notification.id,
            "X-Webmill-Timestamp": sent,
            "Connection": "close",
        }
        if self._options.secret:
            headers["X-Webmill-Signature"] = sign(self._options.secret, sent, notification.payload)
        return headers

    def _check(self, status: int, headers: http.client.HTTPMessage) -> None:
        if status in range(200, 300):
            return
        if status in range(300, 400):
            raise Unavailable(
                f"{self._shown} redirects (status {status}), which is not followed: write the new address"
            )
        after = headers.get("Retry-After", "")
        raise Unavailable(
            f"{self._shown} answered with status {status}",
            retry_after=float(after) if _SECONDS.fullmatch(after) else None,
        )

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        """Yield a connection to an address that was checked. It is broken when the time is over, however slow."""
        with ExitStack() as stack:
            sock = stack.enter_context(socket.create_connection((self._vetted_address(), self._port), timeout=CONNECT))
            if self._is_secure:
                sock = stack.enter_context(_wrap(sock, self._host))
            watch = threading.Timer(DEADLINE, _break, (sock,))
            watch.daemon = True
            watch.start()
            stack.callback(watch.cancel)
            if isinstance(sock, ssl.SSLSocket):
                sock.do_handshake()
            connection = http.client.HTTPConnection(self._host, self._port)
            connection.default_port = 443 if self._is_secure else 80  # for the Host header
            connection.sock = sock
            yield connection

    def _vetted_address(self) -> str:
        found = _look_up(self._host)
        if self._options.allow_private:
            return found[0]
        nat64 = nat64_prefixes(tuple(_look_up_quietly(NAT64_NAME))) if any(":" in ip for ip in found) else ()
        allowed = [ip for ip in found if is_public(ip) and not leads_to_private(ip, nat64)]
        if not allowed:
            raise Misconfigured(
                f"{self._shown} is not an address of the public Internet; if that is meant, set "
                "`allow_private = true` in [alerts]"
            )
        return allowed[0]


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a message: what the header X-Webmill-Signature has."""
    return f"sha256={hmac.new(secret.encode(), timestamp.encode() + b'.' + body, hashlib.sha256).hexdigest()}"


def _wrap(sock: socket.socket, host: str) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)


def _break(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended by itself


def _look_up(host: str) -> list[str]:
    return [str(where[0]) for *_, where in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def _look_up_quietly(host: str) -> list[str]:
    try:
        return _look_up(host)
    except OSError:
        return []


def _describe(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused ({error.verify_message})"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror if isinstance(error, OSError) else "") or type(error).__name__
