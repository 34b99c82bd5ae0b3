"""The cookies of one shard, in memory: by site, bounded, and with the changes that are to be stored.

    jar.learn(url, head.headers, now=clock(), is_private=False)
    jar.header(url, now=clock())                # CookieHeader("id=1", "id=1")

A site is a registered domain, with the suffixes of providers (`me.github.io`): no cookie is shared beyond it, so that
no site can push out or read what another one has set. One that is full forgets what was changed longest ago; of all
sites together, those that were not asked for longest. What the user gave is not forgotten for what servers set.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from webmill.formats.http.cookies import Cookie, path_matches, read_set_cookie, site_of
from webmill.formats.url.normalise import host_of
from webmill.model import Headers

MOST_OF_SITE = 100  # cookies
MOST_COOKIES = 30_000
MOST_CHARACTERS = 8 << 20
MOST_OF_HEADER = 8000  # bytes of a Cookie field: servers refuse longer ones
SESSION_LIFE = 86400.0  # seconds for which a cookie without an end is kept
MASK = "***"


class CookieHeader(msgspec.Struct, frozen=True):
    """A Cookie field as it is sent, and as it is archived: without what is private."""

    sent: str = ""
    archived: str = ""

    @property
    def is_private(self) -> bool:
        return self.sent != self.archived


class SiteCookies(msgspec.Struct):
    cookies: dict[tuple[str, str, bool, str], Cookie] = {}

    @property
    def characters(self) -> int:
        return sum(len(one.name) + len(one.value) + len(one.domain) + len(one.path) for one in self.cookies.values())


class CookieJar:
    """Cookies of a shard. Used by one thread."""

    def __init__(self, *, most: int = MOST_COOKIES, most_characters: int = MOST_CHARACTERS) -> None:
        self._most, self._most_characters = most, most_characters
        self._sites: OrderedDict[str, SiteCookies] = OrderedDict()  # the one that was used last comes last
        self._count = self._characters = 0
        self._changed: set[str] = set()
        self.refused = 0  # Set-Cookie fields that browsers ignore, too

    def __len__(self) -> int:
        return self._count

    def give(self, cookies: Iterable[Cookie], *, now: float) -> None:
        """Add cookies of the user. They replace those of the same name that were set before they were given."""
        for cookie in cookies:
            site = site_of(cookie.domain)
            before = self._of_site(site).get(cookie.key)
            if not cookie.is_expired(now) and (before is None or before.changed <= cookie.changed):
                self._put(site, [cookie], now=now)

    def load(self, site: str, cookies: Iterable[Cookie], *, now: float) -> None:
        """Add what was stored of a site."""
        self._put(site, [one for one in cookies if not one.is_expired(now)], now=now)

    def learn(self, url: str, headers: Headers, *, now: float, is_private: bool = False) -> bool:
        """Take the cookies that a response for a normalised URL sets; return whether anything is different now.

        `is_private`: the request carried credentials of the user, so what it got for them is private, too.
        """
        fields = headers.get_all("Set-Cookie")
        if not fields:
            return False
        site = site_of(host_of(url))
        known = self._of_site(site)
        found: list[Cookie] = []
        for field in fields:
            cookie = read_set_cookie(field, url=url, now=now, session_life=SESSION_LIFE)
            if cookie is None or self._is_protected(cookie, url, known):
                self.refused += 1
                continue
            before = known.get(cookie.key)
            was_private = before is not None and before.is_private
            created = before.created if before else now
            found.append(msgspec.structs.replace(cookie, created=created, is_private=is_private or was_private))
        before_text = {key: one.value for key, one in known.items()}
        self._put(site, found, now=now)
        if found:
            self._changed.add(site)
        after = self._of_site(site)
        return before_text != {key: one.value for key, one in after.items()}

    def header(self, url: str, *, now: float) -> CookieHeader:
        """Return the Cookie field of a request for a normalised URL."""
        site = site_of(host_of(url)) if self._sites else ""
        found = self._sites.get(site)
        if found is None:
            return CookieHeader()
        self._sites.move_to_end(site)
        sent = [one for one in found.cookies.values() if one.is_sent_to(url, now=now)]
        sent.sort(key=lambda one: (-len(one.path), one.created))
        length, kept = 0, list[Cookie]()
        for cookie in sent:
            if length + len(cookie.text) + 2 <= MOST_OF_HEADER:
                length += len(cookie.text) + 2
                kept.append(cookie)
        return CookieHeader("; ".join(one.text for one in kept), "; ".join(map(_masked, kept)))

    def take_changes(self) -> dict[str, tuple[Cookie, ...]]:
        """Return the cookies that servers set of the sites that changed since this was asked; a site without any is to
        be forgotten."""
        changed, self._changed = self._changed, set()
        return {site: tuple(one for one in self._of_site(site).values() if not one.is_given) for site in changed}

    def _of_site(self, site: str) -> dict[tuple[str, str, bool, str], Cookie]:
        found = self._sites.get(site)
        return found.cookies if found else {}

    def _put(self, site: str, cookies: Iterable[Cookie], *, now: float) -> None:
        found = self._sites.setdefault(site, SiteCookies({}))
        self._count -= len(found.cookies)
        self._characters -= found.characters
        for cookie in cookies:
            found.cookies.pop(cookie.key, None)
            if not cookie.is_expired(now):
                found.cookies[cookie.key] = cookie
        _shrink(found.cookies, now=now)
        if found.cookies:
            self._sites.move_to_end(site)
            self._count += len(found.cookies)
            self._characters += found.characters
        else:
            del self._sites[site]
        self._forget_sites()

    def _forget_sites(self) -> None:
        while self._count > self._most or self._characters > self._most_characters:
            unused = (site for site, each in self._sites.items() if not _has_given(each))
            site = next(unused, None)
            if site is None:
                return
            gone = self._sites.pop(site)
            self._count -= len(gone.cookies)
            self._characters -= gone.characters
            self._changed.add(site)

    def _is_protected(self, cookie: Cookie, url: str, known: dict[tuple[str, str, bool, str], Cookie]) -> bool:
        """Tell whether the cookie, set without TLS, would hide one that is only sent over TLS."""
        if url.startswith("https:"):
            return False
        return any(
            one.is_secure
            and one.name == cookie.name
            and (_in_domain(one.domain, cookie.domain) or _in_domain(cookie.domain, one.domain))
            and path_matches(cookie.path, one.path)
            for one in known.values()
        )


def _shrink(cookies: dict[tuple[str, str, bool, str], Cookie], *, now: float) -> None:
    """Drop what is expired, and of a site that has too many those that were changed longest ago."""
    for key in [key for key, one in cookies.items() if one.is_expired(now)]:
        del cookies[key]
    if len(cookies) > MOST_OF_SITE:
        oldest = sorted((one.is_private, one.changed, at, one.key) for at, one in enumerate(cookies.values()))
        for _, _, _, key in oldest[: len(cookies) - MOST_OF_SITE]:
            del cookies[key]


def _has_given(site: SiteCookies) -> bool:
    return any(one.is_private for one in site.cookies.values())


def _masked(cookie: Cookie) -> str:
    if not cookie.is_private:
        return cookie.text
    return f"{cookie.name}={MASK}" if cookie.name else MASK


def _in_domain(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")
