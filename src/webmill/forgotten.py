"""What was taken down: the list of a collection and that of the user, and whether an address is on it.

    DIR/.webmill/forget/list.json               of a collection: nothing of it is shown, published or exported
    $XDG_CONFIG_HOME/webmill/forgotten.json     of the user: never asked for again, by no collection

`webmill forget` writes them; every stage asks here, and nowhere else (docs/decisions/0028-forget.md). A rule is an
address, all below an address (`https://example.org/private/*`), or a domain with all its hosts. Addresses are compared
by their SURT, as an index does: `http` and `https`, `www.` or not, are one. What a browser captured of a page
(`urn:view:URL`) goes with it.

A list that is damaged is an error for everybody who asks: nobody takes it for an empty one.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from weakref import WeakKeyDictionary

import msgspec

from webmill.collection import STATE_FOLDER
from webmill.errors import BadInput, Misconfigured, NotFound, WrongUse
from webmill.formats.url.domains import registered_domain
from webmill.formats.url.normalise import host_of, normalise
from webmill.formats.url.surt import surt
from webmill.infra import atomic, lock
from webmill.infra.checksums import seal_json, unseal_json
from webmill.infra.files import os_errors
from webmill.infra.storage.base import Readable
from webmill.infra.trusted_folders import configuration_folder

FOLDER = f"{STATE_FOLDER}/forget"
LIST = f"{FOLDER}/list.json"
USER_LIST = "forgotten.json"
LONGEST_REASON = 500
MAX_LIST = 256 << 20  # bytes
REPAIR = "restore it from a copy, since nothing that it names may be shown"
RECHECK = 1.0  # seconds until a list is looked at again
_ABOUT_A_PAGE = re.compile(r"urn:[a-z][a-z0-9-]*:(?=https?://)", re.IGNORECASE)
_BODY = re.compile(r"[?&]__wb_(?:method|post_data)=.*")  # of a POST, which an index adds to its key
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_NUMERIC = re.compile(r"[0-9.]+|\[.*")


class TakenDown(NotFound):
    """It was here, and is not shown any more: with the date and the reason, for whoever asks for it."""


class ForgetRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a list. `pattern` is written as `read_pattern` returns it."""

    pattern: str
    at: datetime
    reason: str = ""


class ForgetRules(msgspec.Struct, frozen=True):
    """A list as it is stored."""

    rules: tuple[ForgetRule, ...] = ()


class KeySpan(msgspec.Struct, frozen=True):
    """The keys `start <= key < end` that a rule covers."""

    start: str
    end: str


def _digest(rules: Iterable[ForgetRule]) -> str:
    """Return a digest of the patterns; empty without any."""
    patterns = sorted(rule.pattern for rule in rules)
    return hashlib.sha256("\n".join(patterns).encode()).hexdigest()[:32] if patterns else ""


class Forgotten:
    """Whether an address was taken down. It costs the same for one rule and for 100,000."""

    def __init__(self, rules: Iterable[ForgetRule] = ()) -> None:
        self.rules = tuple(rules)
        spans = sorted(
            ((span, rule) for rule in self.rules for span in key_spans(rule.pattern)),
            key=lambda one: (one[0].start, one[0].end),
        )
        self._spans: list[tuple[KeySpan, ForgetRule]] = []
        for span, rule in spans:  # those within another one add nothing
            if not self._spans or span.end > self._spans[-1][0].end:
                self._spans.append((span, rule))
        self._starts = [span.start for span, _ in self._spans]
        self.digest = _digest(self.rules)

    def __bool__(self) -> bool:
        return bool(self._spans)

    def find(self, url: str) -> ForgetRule | None:
        """Return the rule by which an address was taken down, or None."""
        if not self._spans or not url:
            return None
        return self._of_key(surt(_ABOUT_A_PAGE.sub("", url, count=1)))

    def find_key(self, urlkey: str) -> ForgetRule | None:
        """Return the rule for a key of an index (SURT), or None."""
        if not self._spans or not urlkey:
            return None
        return self.find(urlkey) if urlkey.startswith("urn:") else self._of_key(urlkey)

    def covers(self, url: str) -> bool:
        return self.find(url) is not None

    def covers_key(self, urlkey: str) -> bool:
        return self.find_key(urlkey) is not None

    def _of_key(self, key: str) -> ForgetRule | None:
        for one in (key, _BODY.sub("", key)) if "__wb_" in key else (key,):
            at = bisect_right(self._starts, one) - 1
            if at >= 0 and one < self._spans[at][0].end:
                return self._spans[at][1]
        return None


NOTHING_FORGOTTEN = Forgotten()


def read_pattern(text: str) -> str:
    """Return a URL, `URL*` or a domain in its one form. WrongUse: it is none, or is more than one site."""
    text = text.strip()
    below, text = text.endswith("*"), text.removesuffix("*").removeprefix("*.")
    is_domain = not _ADDRESS.match(text) and "/" not in text
    try:
        url = normalise(text if _ADDRESS.match(text) else f"http://{text}")
        host = host_of(url)
    except BadInput as error:
        raise WrongUse(f"{text!r} is neither a URL nor a domain: {error.message}") from error
    if not _NUMERIC.match(host) and "." in host and not registered_domain(host):
        raise WrongUse(f"{host} is no site but the end of many names: name the domain of one")
    if is_domain:
        if below:
            raise WrongUse(f"write the domain itself, {host}: all its hosts belong to it")
        return host.removeprefix("www.")
    return f"{url}*" if below else url


def key_spans(pattern: str) -> list[KeySpan]:
    """Return the spans of keys that a pattern covers. A domain has all its hosts, and all ports."""
    if not _ADDRESS.match(pattern):
        host = surt(f"http://{pattern}/").partition(")")[0]
        return [
            KeySpan(host + ")", host + "-"),
            KeySpan(host + ":", host + ";"),
            KeySpan(f"dns:{pattern}", f"dns:{pattern}\0"),
        ]
    key = surt(pattern.removesuffix("*"))
    if not pattern.endswith("*"):
        return [KeySpan(key, key + "\0")]
    for mark in "/?":  # dropped by the canonical form, but significant here
        key += mark if pattern.endswith(f"{mark}*") and not key.endswith(mark) else ""
    return [KeySpan(key, key[:-1] + chr(ord(key[-1]) + 1))]


# --- lists ---


def list_path(root: Path) -> Path:
    return root / LIST


def user_list_path(environment: Mapping[str, str] = os.environ) -> Path:
    return configuration_folder(environment) / "webmill" / USER_LIST


def read_rules(path: Path) -> tuple[ForgetRule, ...]:
    """Return the rules of a list; none if there is no list. `Misconfigured`: it is damaged."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_LIST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError:
        with os_errors(str(path)):
            raise
    return decode_rules(data, source=str(path))


def decode_rules(data: bytes, *, source: str) -> tuple[ForgetRule, ...]:
    try:
        return msgspec.json.decode(unseal_json(data, source=source, repair=REPAIR), type=ForgetRules).rules
    except (BadInput, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Misconfigured(f"the list of what was taken down is damaged: {error}: {REPAIR}") from error


def encode_rules(rules: Iterable[ForgetRule]) -> bytes:
    ordered = sorted(rules, key=lambda rule: rule.pattern)
    return seal_json(msgspec.json.format(msgspec.json.encode(ForgetRules(tuple(ordered)))))


def change_rules(path: Path, *, add: Iterable[ForgetRule] = (), remove: Iterable[str] = ()) -> tuple[ForgetRule, ...]:
    """Add rules to a list and remove patterns from it, durably; return what it has now. A rule that is there stays as
    it is: its date is when it was first said."""
    atomic.make_folder(path.parent)
    with lock.exclusive(path.parent, "forget", doing="changing a list of what was taken down", patience=30.0):
        known = {rule.pattern: rule for rule in read_rules(path)}
        before = dict(known)
        for rule in add:
            known.setdefault(rule.pattern, rule)
        for pattern in remove:
            known.pop(pattern, None)
        if known != before or not path.exists():
            atomic.write_bytes(path, encode_rules(known.values()), mode=atomic.OWNER)
    return tuple(known.values())


def forgotten_at(root: Path) -> Forgotten:
    """Return what was taken down in a collection."""
    return Forgotten(read_rules(list_path(root)))


class ForgottenFiles:
    """Several lists as one, which is read again when one of them has changed. Threads may share it."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._seen: tuple[object, ...] | None = None
        self._looked = 0.0
        self._current = NOTHING_FORGOTTEN

    def current(self) -> Forgotten:
        now = time.monotonic()
        if self._seen is None or now - self._looked >= RECHECK:
            seen = tuple(_identity(path) for path in self._paths)
            if seen != self._seen:
                self._current = Forgotten(rule for path in self._paths for rule in read_rules(path))
                self._seen = seen
            self._looked = now
        return self._current


def never_asked(root: Path) -> ForgottenFiles:
    """Return what is never asked for by a crawl of this collection: its own list, and that of the user."""
    return ForgottenFiles(list_path(root), user_list_path())


_of_storage: WeakKeyDictionary[Readable, tuple[float, str, Forgotten]] = WeakKeyDictionary()


def forgotten_in(storage: Readable) -> Forgotten:
    """Return what was taken down of the versions in a storage; it is looked at once a second."""
    kept = _of_storage.get(storage)
    now = time.monotonic()
    if kept and now - kept[0] < RECHECK:
        return kept[2]
    try:
        stat = storage.stat(LIST)
    except NotFound:
        etag, found = "", NOTHING_FORGOTTEN
    else:
        etag = stat.etag
        found = kept[2] if kept and kept[1] == etag else Forgotten(decode_rules(storage.read(LIST), source=LIST))
    _of_storage[storage] = now, etag, found
    return found


def _identity(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
