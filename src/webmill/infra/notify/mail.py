"""Mail by SMTP: `smtp://USER:PASSWORD@HOST:587` with STARTTLS, `smtps://…:465` with TLS from the start.

A password and the text never go unencrypted, but to this machine itself (`smtp://localhost`). The Message-ID is made of
the message's id, so that a mail program shows one that was sent twice once.
"""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formataddr, formatdate, parseaddr
from urllib.parse import unquote, urlsplit

from webmill.errors import Misconfigured, Unavailable
from webmill.infra.notify.base import Notification, NotifyOptions

TIMEOUT = 30.0  # seconds
HERE = ("localhost", "127.0.0.1", "::1")
LONGEST_SUBJECT = 200  # characters


def open_mail(address: str, options: NotifyOptions) -> MailSender:
    return MailSender(address, options)


class MailSender:
    def __init__(self, address: str, options: NotifyOptions) -> None:
        self._receivers = [*map(_mail_address, unquote(address.partition(":")[2].partition("?")[0]).split(","))]
        if not options.mail_server:
            raise Misconfigured("no server for mail: set `mail_server` in [alerts], or WEBMILL_ALERTS_MAIL_SERVER")
        if not options.mail_from:
            raise Misconfigured("no sender for mail: set `mail_from` in [alerts], or `contact` in [http]")
        self._sender = _mail_address(options.mail_from)
        try:
            server = urlsplit(options.mail_server)
            self._host, port = server.hostname or "", server.port
        except ValueError:
            raise Misconfigured("`mail_server` in [alerts] is not smtp://USER:PASSWORD@HOST:PORT") from None
        if server.scheme not in ("smtp", "smtps") or not self._host:
            raise Misconfigured("`mail_server` in [alerts] is not smtp://USER:PASSWORD@HOST:PORT or smtps://…")
        self._is_tls = server.scheme == "smtps"
        self._port = port or (465 if self._is_tls else 25 if self._host in HERE else 587)
        self._user, self._password = unquote(server.username or ""), unquote(server.password or "")

    def send(self, notification: Notification) -> None:
        try:
            with self._connected() as server:
                if self._user:
                    server.login(self._user, self._password)
                refused = server.send_message(self._message(notification), self._sender, self._receivers)
        except smtplib.SMTPRecipientsRefused as error:
            raise Unavailable(f"{self._shown}: receiver refused: {_replies(error.recipients)}") from None
        except smtplib.SMTPAuthenticationError as error:
            raise Unavailable(f"{self._shown}: user name or password refused (status {error.smtp_code})") from None
        except smtplib.SMTPResponseException as error:
            raise Unavailable(f"{self._shown}: {error.smtp_code} {_text(error.smtp_error)}") from None
        except ssl.SSLCertVerificationError as error:
            raise Unavailable(f"{self._shown}: its certificate is refused ({error.verify_message})") from None
        except (OSError, smtplib.SMTPException) as error:
            raise Unavailable(f"{self._shown}: {error.strerror or _text(error) or type(error).__name__}") from None
        if refused:
            raise Unavailable(f"{self._shown}: some receivers were refused: {_replies(refused)}")

    @property
    def _shown(self) -> str:
        return f"mail server {self._host}:{self._port}"

    def _connected(self) -> smtplib.SMTP:
        if self._is_tls:
            return smtplib.SMTP_SSL(self._host, self._port, timeout=TIMEOUT, context=ssl.create_default_context())
        server = smtplib.SMTP(self._host, self._port, timeout=TIMEOUT)
        if self._host not in HERE:
            try:
                server.starttls(context=ssl.create_default_context())
            except BaseException:
                server.close()
                raise
        return server

    def _message(self, notification: Notification) -> EmailMessage:
        message = EmailMessage()
        message["From"] = formataddr(("webmill", self._sender))
        message["To"] = ", ".join(self._receivers)
        message["Subject"] = " ".join(notification.subject.split())[:LONGEST_SUBJECT]
        message["Date"] = formatdate()
        message["Message-ID"] = f"<{notification.id}@webmill.invalid>"
        message["X-Webmill-Delivery"] = notification.id
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(notification.text)
        message.add_alternative(notification.html, subtype="html")
        return message


def _mail_address(text: str) -> str:
    """Return the address; `Misconfigured` if it is none, or would add a line to the head of a mail."""
    address = parseaddr(text.strip())[1]
    if "@" not in address or " " in address or not text.isprintable():
        raise Misconfigured(f"{text.strip()[:100]!r} is not an e-mail address: write mailto:me@example.org")
    return address


def _replies(refused: dict[str, tuple[int, bytes]]) -> str:
    return "; ".join(f"{address}: {code} {_text(reply)}" for address, (code, reply) in refused.items())


def _text(reply: object) -> str:
    text = reply.decode(errors="replace") if isinstance(reply, bytes) else str(reply)
    return "".join(character if character.isprintable() else " " for character in text)[:200]
