"""The state of a logged-in browser in a file: cookies and local storage, in JSON as Playwright writes it.

    {"cookies": [{"name": "id", "value": "1", "domain": ".example.org", "path": "/", "expires": -1, "secure": true}],
     "origins": [{"origin": "https://example.org", "localStorage": [{"name": "token", "value": "x"}]}]}

https://playwright.dev/python/docs/api/class-browsercontext#browser-context-storage-state
"""

from __future__ import annotations

import msgspec

from webmill.errors import BadInput
from webmill.formats.http.cookies import Cookie
from webmill.formats.url.domains import private_domain


class StoredCookie(msgspec.Struct, frozen=True):
    name: str
    value: str
    domain: str
    path: str = "/"
    expires: float = -1.0
    secure: bool = False


class StoredItem(msgspec.Struct, frozen=True):
    name: str
    value: str


class OriginStorage(msgspec.Struct, frozen=True):
    """The local storage of one origin."""

    origin: str
    local_storage: list[StoredItem] = msgspec.field(default_factory=list, name="localStorage")


class StorageState(msgspec.Struct, frozen=True):
    cookies: list[StoredCookie] = []
    origins: list[OriginStorage] = []

    def own_cookies(self) -> list[Cookie]:
        """Return the cookies as they are sent: credentials of the user."""
        return [_make_cookie(one) for one in self.cookies if one.domain.strip(".")]


def is_storage_state(data: bytes) -> bool:
    return data.lstrip()[:1] == b"{"


def read_storage_state(data: bytes, *, source: str) -> StorageState:
    """Return the state in a file. BadInput, which tells nothing of what the file holds."""
    try:
        return msgspec.json.decode(data, type=StorageState)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        message = "it is no storage state: a JSON object with `cookies` and `origins`, as Playwright writes it"
        raise BadInput(message, reason="bad_cookie_file", source=source) from None


def _make_cookie(stored: StoredCookie) -> Cookie:
    host = stored.domain.strip().lower().removeprefix(".")
    is_wide = stored.domain.startswith(".") and private_domain(host) is not None
    return Cookie(
        name=stored.name,
        value=stored.value,
        domain=host,
        path=stored.path if stored.path.startswith("/") else "/",
        is_host_only=not is_wide,
        is_secure=stored.secure,
        expires=stored.expires if stored.expires > 0 else None,
        is_private=True,
        is_given=True,
    )
