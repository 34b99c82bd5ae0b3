"""Real servers that take messages: a webhook over HTTP, and a mail server. They keep what they were sent."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


@dataclass(frozen=True)
class Posted:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["x-webmill-delivery"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class WebhookReceiver:
    """Answers with the next of `statuses`, and with 204 when there are no more. `taken` are those it said 2xx to."""

    statuses: list[int] = field(default_factory=list)
    headers: Sequence[tuple[str, str]] = ()
    taken: list[Posted] = field(default_factory=list)
    refused: list[Posted] = field(default_factory=list)
    address: str = ""
    waiting: threading.Event | None = None

    def next_post(self, *, give_up: float) -> threading.Event:
        """Return an event that is set when the next message comes, or when none came for some seconds."""
        self.waiting = threading.Event()
        timer = threading.Timer(give_up, self.waiting.set)
        timer.daemon = True
        timer.start()
        return self.waiting


@contextmanager
def webhook(receiver: WebhookReceiver | None = None) -> Iterator[WebhookReceiver]:
    kept = receiver or WebhookReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted = Posted(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            status = kept.statuses.pop(0) if kept.statuses else 204
            if kept.waiting:
                kept.waiting.set()
            (kept.taken if status in range(200, 300) else kept.refused).append(posted)
            self.send_response(status)
            for header in kept.headers:
                self.send_header(*header)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        kept.address = f"http://127.0.0.1:{server.server_port}/hook"
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True)
class Mail:
    sender: str
    receivers: list[str]
    message: EmailMessage

    @property
    def id(self) -> str:
        return str(self.message["X-Webmill-Delivery"])

    def part(self, kind: str) -> str:
        body = self.message.get_body((kind,))
        assert body
        text = body.get_content()
        assert isinstance(text, str)
        return text


class MailServer:
    """`reply`: what it says to the next mails instead of taking them."""

    def __init__(self) -> None:
        self.mails: list[Mail] = []
        self.replies: list[str] = []
        self.logins: list[tuple[bytes, bytes]] = []
        self.address = ""

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.replies:
            return self.replies.pop(0)
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=policy.default)
        self.mails.append(Mail(str(envelope.mail_from), list(envelope.rcpt_tos), message))
        return "250 taken"

    def authenticate(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"right/word", handled=False)


@contextmanager
def mail_server(*, tls: Any = None) -> Iterator[MailServer]:
    """Start a mail server on a port of its own; with `tls`, a context, it speaks TLS from the start."""
    kept = MailServer()
    port = free_port()
    asks = {"authenticator": kept.authenticate, "auth_require_tls": False}
    controller = Controller(kept, hostname="127.0.0.1", port=port, ssl_context=tls, server_hostname="localhost", **asks)
    controller.start()
    kept.address = f"smtp://127.0.0.1:{port}"
    try:
        yield kept
    finally:
        controller.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port
