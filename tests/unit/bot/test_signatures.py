"""Signed requests verify with an implementation that is not ours, and with the RFC's vectors; forged ones do not."""

from __future__ import annotations

import stat
import time
from base64 import b64decode, urlsafe_b64decode
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from webmill.cli.main import webmill
from webmill.crawl.politeness.request_signer import RequestSigner
from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.formats.http.message_signature import (
    DIRECTORY_TAG,
    SignatureFields,
    check_request,
    sign_fields,
    signature_base,
)
from webmill.infra.bot_keys import BotIdentity, key_file, read_identity, thumbprint, verify
from webmill.model import Headers
from webmill.pipeline.bot import DIRECTORY, check_bot, check_directory, make_bot, rotate_key
from webmill.serve.bot_site import make_bot_site

NOW = 1_700_000_000.0
URL = "https://bot.example"
IDENTITY = BotIdentity(url=URL, contact="me@example.org", prefixes=("192.0.2.0/24", "2001:db8::/32"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_bot(tmp_path / "bot", IDENTITY, now=NOW)
    return tmp_path / "bot"


def directory_of(folder: Path, now: float) -> dict[str, str]:
    """Return the public keys that a server would find."""
    return {key.keyid: key.public for key in read_identity(folder).published_keys(now)}


def checked(headers: Headers, keys: dict[str, str], *, now: float, authority: str = "example.com") -> Any:
    def is_valid(keyid: str, signature: bytes, data: bytes) -> bool:
        if keyid not in keys:
            raise BadInput(f"no key {keyid}", reason="unknown_key")
        return verify(keys[keyid], signature, data)

    return check_request(headers, authority=authority, now=now, verify=is_valid)


def reason_of(headers: Headers, keys: dict[str, str], **about: Any) -> str:
    with pytest.raises(BadInput) as refused:
        checked(headers, keys, **about)
    return refused.value.reason


@pytest.mark.parametrize("revision", ["2026", "2025"])
def test_another_implementation_verifies_what_we_sign(folder: Path, revision: Any) -> None:
    http_message_signatures = pytest.importorskip("http_message_signatures")
    signer = RequestSigner(folder, revision=revision)  # by the clock of the machine, as the judge has it
    headers = dict(signer.fields("example.com"))

    class Keys(http_message_signatures.HTTPSignatureKeyResolver):  # type: ignore[misc,name-defined]
        def resolve_public_key(self, key_id: str) -> Ed25519PublicKey:
            public = directory_of(folder, NOW)[key_id]
            return Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(public + "=="))

    judge = http_message_signatures.HTTPMessageVerifier(
        signature_algorithm=http_message_signatures.algorithms.ED25519, key_resolver=Keys()
    )
    request = SimpleNamespace(method="GET", url="https://example.com/page", headers=CaseLess(headers))
    [found] = judge.verify(request, max_age=__import__("datetime").timedelta(days=36500))
    assert any("@authority" in name for name in found.covered_components)
    request.headers["Signature-Input"] = headers["Signature-Input"].replace("created=", "created=1")
    with pytest.raises(http_message_signatures.InvalidSignature):
        judge.verify(request, max_age=__import__("datetime").timedelta(days=36500))


def test_another_implementation_refuses_expired_foreign_and_replayed_signatures(folder: Path) -> None:
    judges = pytest.importorskip("http_message_signatures")
    now = time.time()
    past = RequestSigner(folder, wall=lambda: now - 7200)
    headers = {0.0: dict(RequestSigner(folder).fields("example.com")), 7200.0: dict(past.fields("example.com"))}
    keys = {"own": directory_of(folder, NOW), "other": dict.fromkeys(directory_of(folder, NOW), OTHER_KEY)}

    def nonce_of(age: float, whose: str = "own") -> str:
        class Keys(judges.HTTPSignatureKeyResolver):  # type: ignore[misc,name-defined]
            def resolve_public_key(self, key_id: str) -> Ed25519PublicKey:
                return Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(keys[whose][key_id] + "=="))

        judge = judges.HTTPMessageVerifier(signature_algorithm=judges.algorithms.ED25519, key_resolver=Keys())
        request = SimpleNamespace(method="GET", url="https://example.com/page", headers=CaseLess(headers[age]))
        [found] = judge.verify(request, max_age=timedelta(days=1))
        return str(found.parameters["nonce"])

    seen = {nonce_of(0.0)}
    assert nonce_of(0.0) in seen  # the same request again
    headers[0.0] = dict(RequestSigner(folder).fields("example.com"))
    assert nonce_of(0.0) not in seen
    with pytest.raises(judges.InvalidSignature, match="expire"):
        nonce_of(7200.0)
    with pytest.raises(judges.InvalidSignature):
        nonce_of(0.0, whose="other")


OTHER_KEY = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"  # that of RFC 9421


class CaseLess(dict[str, str]):
    def __getitem__(self, name: str) -> str:
        return next(value for key, value in self.items() if key.lower() == name.lower())

    def get(self, name: str, default: Any = None) -> Any:
        return next((value for key, value in self.items() if key.lower() == name.lower()), default)

    def __contains__(self, name: object) -> bool:
        return any(key.lower() == str(name).lower() for key in self)


RFC_KEY = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
-----END PRIVATE KEY-----
"""
RFC_BASE = b"""\
"date": Tue, 20 Apr 2021 02:07:55 GMT
"@method": POST
"@path": /foo
"@authority": example.com
"content-type": application/json
"content-length": 18
"@signature-params": ("date" "@method" "@path" "@authority" "content-type" "content-length")\
;created=1618884473;keyid="test-key-ed25519\""""
RFC_SIGNATURE = "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="


def test_the_vector_of_the_rfc_is_signed_and_verified_as_it_says() -> None:
    """RFC 9421, B.2.6. Ed25519 gives the same signature each time."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    private: Any = load_pem_private_key(RFC_KEY, password=None)
    assert private.sign(RFC_BASE) == b64decode(RFC_SIGNATURE)
    raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    public = __import__("base64").urlsafe_b64encode(raw).rstrip(b"=").decode()
    assert public == "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"
    assert thumbprint(public) == "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"  # as the drafts of Web Bot Auth have it
    assert verify(public, b64decode(RFC_SIGNATURE), RFC_BASE)
    assert not verify(public, b64decode(RFC_SIGNATURE), RFC_BASE + b" ")


def test_the_base_is_that_of_the_drafts() -> None:
    fields = SignatureFields(
        authority="example.com",
        agent="https://bot.example",
        created=1735689600,
        expires=1735693200,
        keyid="K",
        nonce="N",
    )
    signed = (
        '"@signature-params": ("@authority" "signature-agent";key="sig1");created=1735689600;expires=1735693200;'
        'keyid="K";alg="ed25519";nonce="N";tag="web-bot-auth"'
    )
    assert signature_base(fields).decode().splitlines() == [
        '"@authority": example.com',
        '"signature-agent";key="sig1": "https://bot.example"',
        signed,
    ]
    older = msgspec.structs.replace(fields, revision="2025")
    assert signature_base(older).decode().splitlines()[1] == '"signature-agent": "https://bot.example"'
    assert dict(sign_fields(older, lambda _: b"x"))["Signature-Agent"] == '"https://bot.example"'


def test_forged_expired_and_foreign_signatures_are_refused(folder: Path) -> None:
    signer = RequestSigner(folder, wall=lambda: NOW)
    headers, keys = Headers(signer.fields("example.com")), directory_of(folder, NOW)
    assert checked(headers, keys, now=NOW).agent == URL
    assert reason_of(headers, keys, now=NOW + 3600) == "expired_signature"
    assert reason_of(headers, keys, now=NOW - 3600) == "expired_signature"
    assert reason_of(headers, keys, now=NOW, authority="other.example") == "bad_signature"
    assert reason_of(headers, {}, now=NOW) == "unknown_key"
    other = {keyid: thumbprint("x") for keyid in keys}
    assert reason_of(headers, other, now=NOW) == "bad_signature"
    another_agent = headers.without("Signature-Agent").with_added(("Signature-Agent", 'sig1="https://other.example"'))
    assert reason_of(another_agent, keys, now=NOW) == "bad_signature"
    assert reason_of(headers.without("Signature"), keys, now=NOW) == "no_signature"


def test_a_replayed_request_is_known_by_its_nonce(folder: Path) -> None:
    signer, keys = RequestSigner(folder, wall=lambda: NOW), directory_of(folder, NOW)
    seen: set[str] = set()
    for headers in (signed := [Headers(signer.fields("example.com")) for _ in range(20)]):
        nonce = checked(headers, keys, now=NOW).nonce
        assert nonce not in seen
        seen.add(nonce)
    assert checked(signed[0], keys, now=NOW).nonce in seen


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=100))
def test_any_fields_are_an_answer(given_input: str, signature: str, agent: str) -> None:
    headers = Headers([("Signature-Input", given_input), ("Signature", signature), ("Signature-Agent", agent)])
    with pytest.raises(BadInput):
        check_request(headers, authority="a", now=NOW, verify=lambda *_: False)


def test_an_hour_with_a_new_key_every_ten_minutes_has_no_refused_request(folder: Path) -> None:
    """Servers keep the directory for five minutes; two nodes read the folder once a minute."""
    identity = msgspec.structs.replace(read_identity(folder), lead=600.0)
    (folder / "bot.json").write_bytes(msgspec.json.encode(identity))
    now = NOW
    nodes = [RequestSigner(folder, wall=lambda: now) for _ in range(2)]
    known, used = directory_of(folder, now), set()
    for second in range(0, 3600, 10):
        now = NOW + second
        if second % 600 == 300:
            rotate_key(folder, now=now)
        if second % 300 == 0:
            known = directory_of(folder, now)
        for node in nodes:
            used.add(checked(Headers(node.fields("example.com")), known, now=now).keyid)
    assert len(used) >= 5


def test_after_a_step_of_the_clock_the_next_signature_is_right(folder: Path) -> None:
    now = NOW + 5
    signer, keys = RequestSigner(folder, wall=lambda: now), directory_of(folder, NOW)
    for step in (7200.0, -7190.0, 86400.0):
        now += step
        assert checked(Headers(signer.fields("example.com")), keys, now=now).keyid in keys


def test_keys_are_private_and_the_folder_is_checked(folder: Path) -> None:
    [key] = read_identity(folder).keys
    file = key_file(folder, key.keyid)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [one for one in check_bot(folder, now=NOW) if one.problem] == []
    file.chmod(0o644)
    with pytest.raises(Misconfigured, match="chmod 600"):
        RequestSigner(folder, wall=lambda: NOW)
    assert any("chmod 600" in one.problem for one in check_bot(folder, now=NOW))
    file.chmod(0o600)
    file.write_bytes(RFC_KEY)
    assert any("another than the public" in one.problem for one in check_bot(folder, now=NOW))
    file.unlink()
    with pytest.raises(Misconfigured):
        RequestSigner(folder, wall=lambda: NOW)
    with pytest.raises(NotFound, match="bot init"):
        RequestSigner(folder / "nothing")


def test_a_new_key_that_cannot_be_read_leaves_the_old_one_in_use(folder: Path) -> None:
    now = NOW
    signer = RequestSigner(folder, wall=lambda: now)
    made = rotate_key(folder, now=NOW, at_once=True)
    key_file(folder, made.keys[-1].keyid).unlink()
    now = NOW + 120
    assert (
        checked(Headers(signer.fields("example.com")), directory_of(folder, now), now=now).keyid == made.keys[0].keyid
    )


def test_the_pages_are_served_with_the_directory_signed(folder: Path) -> None:
    client = TestClient(make_bot_site(folder, clock=lambda: NOW), base_url="https://bot.example")
    served = client.get(DIRECTORY)
    assert served.headers["content-type"] == "application/http-message-signatures-directory+json"
    assert check_directory(served.content, read_identity(folder), now=NOW) == ""
    found = check_request(
        Headers([*served.headers.items()]),
        authority="bot.example",
        now=NOW,
        verify=lambda keyid, signature, data: verify(directory_of(folder, NOW)[keyid], signature, data),
        tag=DIRECTORY_TAG,
        is_response=True,
    )
    assert found.keyid in directory_of(folder, NOW)
    page = client.get("/").text
    assert "purpose=archive" in page
    assert "mailto:me@example.org" in page
    assert client.get("/addresses.json").json()["prefixes"] == [
        {"ipv4Prefix": "192.0.2.0/24"},
        {"ipv6Prefix": "2001:db8::/32"},
    ]
    assert client.get("/.well-known/signature-agent-card").json()["purpose"] == "archive"
    assert client.get("/keys/").status_code == 404


def test_the_commands_make_check_and_rotate(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(webmill, ["bot", *arguments])

    bot = str(tmp_path / "bot")
    assert run("init", bot, "--url", "https://bot.example/", "--contact", "me@example.org").exit_code == 0
    assert run("check", bot).exit_code == 0
    assert run("rotate", bot).exit_code == 0
    assert len(read_identity(Path(bot)).keys) == 2
    (tmp_path / "bot" / "www" / "index.html").unlink()
    assert run("check", bot).exit_code == 1
    assert run("pages", bot).exit_code == 0
    assert run("check", bot).exit_code == 0
    collection = tmp_path / "news"
    (collection / "crawl-data").mkdir(parents=True)
    refused = run("init", str(collection / "bot"), "--url", "https://bot.example", "--contact", "x")
    assert "keep keys outside" in str(refused.exception)
