"""Sign requests with the key whose time it is (`infra/bot_keys.py`, `formats/http/message_signature.py`).

Signatures follow the machine's own clock, unlike all else in a crawl: servers compare them with theirs. After a step of
the clock the next signature is right again. The identity is read again once a minute, so that a new key comes into use
without a new run, on every node.
"""

from __future__ import annotations

import logging
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from secrets import token_bytes

from webmill.errors import Misconfigured, WebmillError
from webmill.formats.http.message_signature import SignatureFields, SignatureRevision, sign_fields
from webmill.infra.bot_keys import BotIdentity, load_signer, looks_at, read_identity, refuse_inside
from webmill.settings import CrawlSettings

log = logging.getLogger(__name__)

READ_AGAIN = 60.0  # seconds
BACKDATED = 5  # seconds: a server whose clock is a little behind takes the signature as well
NONCE_BYTES = 32

Fields = tuple[tuple[str, str], ...]


class RequestSigner:
    def __init__(
        self, folder: Path, *, revision: SignatureRevision = "2026", wall: Callable[[], float] = time.time
    ) -> None:
        """Raise Misconfigured or NotFound unless there is a key that can sign now."""
        self._folder, self._revision, self._wall = folder, revision, wall
        self._identity: BotIdentity = read_identity(folder)
        self._looks = looks_at(folder)
        self._read_at = wall()
        self._keyid = self._refused = ""
        self._sign: Callable[[bytes], bytes] | None = None
        self._choose_key(self._read_at)
        if self._sign is None:
            raise Misconfigured(f"no key in {folder} signs now: `webmill bot rotate {folder}` makes one")

    def fields(self, authority: str) -> Fields:
        """Return the fields that a request to this host carries: a signature of its own."""
        now = self._wall()
        if not 0.0 <= now - self._read_at < READ_AGAIN:
            self._read_again(now)
        self._choose_key(now)
        if self._sign is None:
            return ()
        created = int(now) - BACKDATED
        signed = SignatureFields(
            authority=authority,
            keyid=self._keyid,
            created=created,
            expires=created + BACKDATED + self._identity.lifetime,
            agent=self._identity.url,
            nonce=b64encode(token_bytes(NONCE_BYTES)).decode("ascii"),
            revision=self._revision,
        )
        return sign_fields(signed, self._sign)

    def _read_again(self, now: float) -> None:
        """Read the identity if it has changed. One that cannot be read leaves the old one in use."""
        self._read_at = now
        looks = looks_at(self._folder)
        if looks == self._looks:
            return
        try:
            self._identity, self._looks = read_identity(self._folder), looks
        except WebmillError as error:
            log.warning("the keys cannot be read again: %s", error)

    def _choose_key(self, now: float) -> None:
        """Take the key whose time it is. One that cannot be used is told once; the old one is still published."""
        key = self._identity.signing_key(now)
        if key is None or key.keyid in (self._keyid, self._refused):
            return
        try:
            self._sign, self._keyid = load_signer(self._folder, key.keyid), key.keyid
        except WebmillError as error:
            if self._sign is None:
                raise
            log.warning("the new key cannot be used: %s", error)
            self._refused = key.keyid


def open_signer(settings: CrawlSettings, root: Path) -> RequestSigner | None:
    """Return what signs the requests of a collection; None: they are not signed. Misconfigured: the keys lie in the
    collection, or cannot be used."""
    if not settings.bot:
        return None
    folder = root / settings.bot
    refuse_inside(folder, root)
    return RequestSigner(folder, revision=settings.bot_revision)
