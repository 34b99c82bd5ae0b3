"""The keys of a crawler that signs its requests: Ed25519, each with the time in which it signs, in a folder of its own.

    DIR/bot.json                 who the crawler is, and its keys
    DIR/keys/THUMBPRINT.pem      private keys, readable by their owner alone
    DIR/www/…                    what servers may read (`webmill bot serve`, or any web server)

A key is named by its thumbprint (RFC 7638). It is published `lead` before it signs, so that servers know it by
then, and for as long after it has ended. Whoever signs reads the folder again now and then: many nodes share one
folder, or copies of it.
"""

from __future__ import annotations

import os
import stat
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import msgspec

from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.infra import atomic
from webmill.infra.files import os_errors

FILE, KEYS = "bot.json", "keys"
INSTALL = "signing needs the cryptography package: pip install 'webmill[sign]'"
MAX_FILE = 1 << 20


class BotKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key and its times, in seconds since 1970; `ends` None: until another begins."""

    keyid: str
    public: str  # base64url, without padding
    starts: float
    ends: float | None = None

    def signs(self, now: float) -> bool:
        return self.starts <= now and (self.ends is None or now < self.ends)

    def is_published(self, now: float, *, lead: float) -> bool:
        return self.starts - lead <= now and (self.ends is None or now < self.ends + lead)

    @property
    def jwk(self) -> dict[str, str]:
        return {"kty": "OKP", "crv": "Ed25519", "kid": self.keyid, "x": self.public, "use": "sig"}


class BotIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who a crawler is: the file `bot.json`."""

    url: str  # where its page is, without a slash at the end
    name: str = "webmill"
    contact: str = ""
    opt_out: str = ""  # address to be left alone
    purpose: str = "archive"
    about: str = ""  # one sentence
    prefixes: tuple[str, ...] = ()  # address ranges that it asks from
    lead: float = 86400.0  # seconds that a key is published before and after it signs
    lifetime: int = 300  # seconds that a signature is valid
    keys: tuple[BotKey, ...] = ()

    def signing_key(self, now: float) -> BotKey | None:
        """Return the key that signs now: the newest of those whose time it is."""
        return max((key for key in self.keys if key.signs(now)), key=lambda key: key.starts, default=None)

    def published_keys(self, now: float) -> list[BotKey]:
        return [key for key in self.keys if key.is_published(now, lead=self.lead)]


def read_identity(folder: Path) -> BotIdentity:
    """Return the identity in a folder. NotFound: there is none. Misconfigured: it cannot be read."""
    path = folder / FILE
    try:
        data = path.read_bytes()[:MAX_FILE]
    except FileNotFoundError:
        raise NotFound(f"no {FILE} in {folder}: `webmill bot init {folder} --url https://…` makes one") from None
    except OSError as error:
        raise Misconfigured(f"{path}: {error.strerror}") from error
    try:
        return msgspec.json.decode(data, type=BotIdentity)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path} cannot be read: {error}") from error


def write_identity(folder: Path, identity: BotIdentity) -> None:
    """Write the identity, durably."""
    atomic.write_bytes(folder / FILE, msgspec.json.format(msgspec.json.encode(identity)) + b"\n")


def make_key(folder: Path, *, starts: float) -> BotKey:
    """Make a new private key in the folder, and return what is public of it."""
    ed25519, serialization = _cryptography()
    private = ed25519.Ed25519PrivateKey.generate()
    raw = private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = _base64url(raw)
    key = BotKey(keyid=thumbprint(public), public=public, starts=starts)
    with os_errors(str(folder)):
        (folder / KEYS).mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic.write_bytes(key_file(folder, key.keyid), pem, mode=atomic.OWNER)
    return key


def key_file(folder: Path, keyid: str) -> Path:
    return folder / KEYS / f"{keyid}.pem"


def thumbprint(public: str) -> str:
    """Return the name of a public key (RFC 7638, RFC 8037)."""
    canonical = f'{{"crv":"Ed25519","kty":"OKP","x":"{public}"}}'
    return _base64url(sha256(canonical.encode()).digest())


def load_signer(folder: Path, keyid: str) -> Callable[[bytes], bytes]:
    """Return the function that signs with a key. Misconfigured: it is missing, or others could read it."""
    path = key_file(folder, keyid)
    ed25519, serialization = _cryptography()
    try:
        mode, data = path.stat().st_mode, path.read_bytes()[:MAX_FILE]
    except OSError as error:
        raise Misconfigured(
            f"{path}: {error.strerror}: copy the key there, or `webmill bot rotate {folder}`"
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise Misconfigured(f"others can read the key {path}: chmod 600 {path}")
    try:
        private = serialization.load_pem_private_key(data, password=None)
    except ValueError as error:
        raise Misconfigured(f"{path} is no private key: {error}") from error
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise Misconfigured(f"{path} is no Ed25519 key")
    return cast("Callable[[bytes], bytes]", private.sign)


def verify(public: str, signature: bytes, data: bytes) -> bool:
    """Tell whether a signature is of these bytes, by this public key."""
    from cryptography.exceptions import InvalidSignature

    ed25519, _ = _cryptography()
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(_from_base64url(public)).verify(signature, data)
    except (InvalidSignature, ValueError, BadInput):
        return False
    return True


def refuse_inside(folder: Path, collection: Path) -> None:
    """Raise Misconfigured where keys would lie in a collection, which is copied, served and given away."""
    if folder.resolve().is_relative_to(collection.resolve()):
        raise Misconfigured(f"the keys in {folder} lie in the collection {collection}: keep them outside of it")


def looks_at(folder: Path) -> tuple[int, int]:
    """Return what changes when the identity is written anew."""
    try:
        status = os.stat(folder / FILE)  # noqa: PTH116 - once a minute in a hot loop
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_ino


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _from_base64url(text: str) -> bytes:
    from base64 import urlsafe_b64decode

    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError as error:
        raise BadInput("not base64url", reason="bad_key") from error


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise Misconfigured(INSTALL) from error
    return ed25519, serialization
