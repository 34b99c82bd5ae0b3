"""Webhooks, mail and chat against real servers: what arrives, what is refused, and that no error shows a secret."""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.receivers import WebhookReceiver, free_port, mail_server, webhook
from tests.unit.crawl.fetch.certificates import Authority

from webmill.errors import Misconfigured, Unavailable
from webmill.infra.notify import webhook as webhooks
from webmill.infra.notify.backends import open_sender
from webmill.infra.notify.base import Notification, NotifyOptions

TOKEN = "T0KEN-of-the-hook"
NOTE = Notification(
    id="0123456789abcdef",
    subject="news: 1 new",
    text="A page\nis new",
    html="<p>A page</p>",
    payload=b'{"a": "\xc3\xa9"}',
)
LOCAL = NotifyOptions(allow_private=True, mail_from="watch@example.org")


def send(address: str, options: NotifyOptions = LOCAL) -> None:
    open_sender(address, options).send(NOTE)


def refusal(address: str, options: NotifyOptions = LOCAL, kind: type[Exception] = Unavailable) -> str:
    with pytest.raises(kind) as raised:
        send(address, options)
    assert TOKEN not in str(raised.value), "an error is printed, logged and stored"
    assert raised.value.__cause__ is None, "whose text a traceback would show"
    return str(raised.value)


# --- webhooks ---


def test_a_webhook_gets_json_that_its_secret_signs() -> None:
    with webhook() as receiver:
        send(f"{receiver.address}/{TOKEN}?a=b", NotifyOptions(secret="key", allow_private=True, user_agent="webmill/1"))
    (posted,) = receiver.taken
    assert posted.path == f"/hook/{TOKEN}?a=b"
    assert posted.body == NOTE.payload
    assert posted.headers["content-type"] == "application/json"
    assert posted.headers["user-agent"] == "webmill/1"
    assert posted.headers["x-webmill-delivery"] == posted.headers["idempotency-key"] == NOTE.id
    sent = posted.headers["x-webmill-timestamp"]
    assert abs(int(sent) - time.time()) < 600
    expected = hmac.new(b"key", sent.encode() + b"." + posted.body, hashlib.sha256).hexdigest()
    assert posted.headers["x-webmill-signature"] == f"sha256={expected}"


def test_without_a_secret_nothing_is_signed() -> None:
    with webhook() as receiver:
        send(receiver.address)
    assert "x-webmill-signature" not in receiver.taken[0].headers


@pytest.mark.parametrize("status", [400, 401, 404, 410, 500, 503])
def test_any_other_status_than_2xx_is_a_failure(status: int) -> None:
    with webhook(WebhookReceiver([status])) as receiver:
        assert f"status {status}" in refusal(f"{receiver.address}/{TOKEN}")
    assert receiver.refused
    assert not receiver.taken


def test_a_redirect_is_not_followed() -> None:
    with webhook() as elsewhere, webhook(WebhookReceiver([307], [("Location", elsewhere.address)])) as receiver:
        assert "not followed" in refusal(f"{receiver.address}/{TOKEN}")
    assert not elsewhere.taken


def test_the_wait_that_a_server_asks_for_is_known() -> None:
    with webhook(WebhookReceiver([429], [("Retry-After", "17")])) as receiver, pytest.raises(Unavailable) as raised:
        send(receiver.address)
    assert raised.value.retry_after == 17.0


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "0.0.0.0"]
)
def test_private_addresses_are_refused_without_a_connection(host: str) -> None:
    with webhook() as receiver:
        port = receiver.address.rpartition(":")[2].partition("/")[0]
        address = f"http://{host}:{port}/{TOKEN}"
        assert "allow_private = true" in refusal(address, NotifyOptions(), Misconfigured)
    assert not receiver.taken


@pytest.mark.parametrize(
    "address",
    [
        "https://",
        f"https://user:{TOKEN}@example.org/",
        f"https://example.org:x/{TOKEN}",
        f"https://example.org/{TOKEN} b",
        f"https://example.org/{TOKEN}é",
    ],
)
def test_what_is_no_address_of_a_webhook_is_refused(address: str) -> None:
    refusal(address, LOCAL, Misconfigured)


def test_a_server_that_is_not_there_or_hangs_up_is_a_failure() -> None:
    refusal(f"http://127.0.0.1:{free_port()}/{TOKEN}")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            server.accept()[0].close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        refusal(f"http://127.0.0.1:{server.getsockname()[1]}/{TOKEN}")
        thread.join()
    refusal(f"http://nobody.invalid/{TOKEN}")


def test_an_answer_that_never_ends_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "DEADLINE", 0.5)
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        client, _ = server.accept()
        while not over.wait(0.05):
            try:
                client.sendall(b"H")
            except OSError:
                break
        client.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,), daemon=True)
        thread.start()
        refusal(f"http://127.0.0.1:{server.getsockname()[1]}/{TOKEN}")
        over.set()
        thread.join()


@contextmanager
def secure_webhook(certificate: Path) -> Iterator[tuple[str, list[bytes]]]:
    taken: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"https://localhost:{server.server_port}/{TOKEN}", taken
        server.shutdown()
        thread.join()


def test_certificates_of_webhooks_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with secure_webhook(authority.issue("localhost")) as (address, taken):
        send(address)
        assert taken == [NOTE.payload]
    with secure_webhook(authority.issue("elsewhere.test")) as (address, taken):
        assert "certificate is refused" in refusal(address)
        assert not taken


# --- mail ---


def test_mail_has_text_and_html_and_an_id_that_is_the_same_each_time() -> None:
    with mail_server() as server:
        for _ in range(2):
            send(
                "mailto:me@example.org,you@example.org",
                NotifyOptions(mail_server=server.address, mail_from="watch@example.org"),
            )
    first, second = server.mails
    assert (first.sender, first.receivers) == ("watch@example.org", ["me@example.org", "you@example.org"])
    assert first.message["Subject"] == "news: 1 new"
    assert first.message["From"] == "webmill <watch@example.org>"
    assert first.part("plain").splitlines() == NOTE.text.splitlines()
    assert first.part("html").strip() == NOTE.html
    assert first.message["Message-ID"] == second.message["Message-ID"]
    assert first.id == NOTE.id


def test_a_mail_that_is_refused_is_a_failure() -> None:
    with mail_server() as server:
        server.replies = ["452 no room"]
        options = NotifyOptions(mail_server=server.address, mail_from="watch@example.org")
        assert "452 no room" in refusal("mailto:me@example.org", options)
        assert not server.mails
    refusal("mailto:me@example.org", NotifyOptions(mail_server=server.address, mail_from="watch@example.org"))


def test_a_subject_cannot_add_lines_to_the_head_of_a_mail() -> None:
    bad = Notification(id="1", subject="a\nBcc: x@example.org\r\nX: y", text="t", html="h", payload=b"{}")
    with mail_server() as server:
        open_sender("mailto:me@example.org", NotifyOptions(mail_server=server.address, mail_from="w@example.org")).send(
            bad
        )
    (mail,) = server.mails
    assert mail.message["Subject"] == "a Bcc: x@example.org X: y"
    assert mail.receivers == ["me@example.org"]
    assert mail.message["Bcc"] is None


def test_a_password_goes_over_tls_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("localhost", "127.0.0.1"))
    with mail_server(tls=context) as server:
        there = server.address.removeprefix("smtp://")
        send(
            "mailto:me@example.org",
            NotifyOptions(mail_server=f"smtps://me:right%2Fword@{there}", mail_from="w@example.org"),
        )
        assert server.logins == [(b"me", b"right/word")]
        assert len(server.mails) == 1
        wrong = NotifyOptions(mail_server=f"smtps://me:{TOKEN}@{there}", mail_from="w@example.org")
        assert "password refused" in refusal("mailto:me@example.org", wrong)


def test_a_server_without_starttls_is_not_told_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another machine, that is: here a name that stands for one."""
    monkeypatch.setattr("webmill.infra.notify.mail.HERE", ())
    with mail_server() as server:
        there = server.address.replace("smtp://", f"smtp://me:{TOKEN}@")
        said = refusal("mailto:me@example.org", NotifyOptions(mail_server=there, mail_from="w@example.org"))
    assert "STARTTLS" in said
    assert not server.mails
    assert not server.logins


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("mailto:me@example.org", NotifyOptions(mail_from="w@example.org")),
        ("mailto:me@example.org", NotifyOptions(mail_server="smtp://localhost")),
        ("mailto:me@example.org", NotifyOptions(mail_server=f"https://{TOKEN}", mail_from="w@example.org")),
        ("mailto:me@example.org", NotifyOptions(mail_server=f"smtp://a:{TOKEN}@b:x", mail_from="w@example.org")),
        ("mailto:me", NotifyOptions(mail_server="smtp://localhost", mail_from="w@example.org")),
        ("mailto:me@a%0ABcc:x@example.org", NotifyOptions(mail_server="smtp://localhost", mail_from="w@example.org")),
    ],
)
def test_wrong_settings_of_mail_say_what_to_set(address: str, options: NotifyOptions) -> None:
    refusal(address, options, Misconfigured)


# --- chat ---


@pytest.mark.filterwarnings("ignore:'imghdr'")  # of Apprise, once
def test_a_chat_service_is_reached_through_apprise() -> None:
    with webhook() as receiver:
        send(receiver.address.replace("http://", "json://"))
    (posted,) = receiver.taken
    assert (posted.json["title"], posted.json["message"]) == (NOTE.subject, NOTE.text)


@pytest.mark.filterwarnings("ignore:'imghdr'")
def test_a_chat_service_that_refuses_is_a_failure_without_its_token() -> None:
    with webhook(WebhookReceiver([500])) as receiver:
        assert refusal(f"{receiver.address.replace('http://', 'json://')}/{TOKEN}").startswith("json://***")
    assert "is not an address of Apprise" in refusal(f"nosuchservice://{TOKEN}/", LOCAL, Misconfigured)
