"""Cookies as browsers read, match and send them (draft-ietf-httpbis-rfc6265bis), and files of them.

    cookie = read_set_cookie("id=1; Secure; Path=/", url="https://example.org/a", now=time.time())
    cookie.is_sent_to("https://example.org/b", now=time.time())

A cookie belongs to one host, or to the hosts of a domain that is no public suffix: neither `co.uk` nor `github.io`.
Text is Latin-1, as in all HTTP fields.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterator
from datetime import date
from urllib.parse import urlsplit

import msgspec

from webmill.errors import BadInput
from webmill.formats.url.domains import private_domain
from webmill.formats.url.normalise import host_of

MAX_COOKIE = 4096  # bytes of name and value; longer cookies are ignored
MAX_ATTRIBUTE = 1024  # bytes; longer attributes are ignored
LONGEST_LIFE = 400 * 86400.0  # seconds
MAX_FILE = 4 << 20  # bytes of a file of cookies

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_WS = " \t"
_MAX_AGE = re.compile(r"-?[0-9]{1,20}")
_DELIMITERS = re.compile(r"[\x09\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[^0-9].*)?", re.DOTALL)
_DAY = re.compile(r"([0-9]{1,2})(?:[^0-9].*)?", re.DOTALL)
_YEAR = re.compile(r"([0-9]{2,4})(?:[^0-9].*)?", re.DOTALL)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_HTTP_ONLY = "#HttpOnly_"  # before a line of a file


class Cookie(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cookie. `expires` is None for one that lives as long as the session. `is_private`: it is a credential of the
    user, or was given for one, and is written nowhere but into the store of cookies."""

    name: str
    value: str
    domain: str  # without a dot before it
    path: str = "/"
    is_host_only: bool = True
    is_secure: bool = False
    expires: float | None = None
    created: float = 0.0
    changed: float = 0.0
    is_private: bool = False
    is_given: bool = False  # it comes from a file of the user, and is stored nowhere else

    @property
    def key(self) -> tuple[str, str, bool, str]:
        """Return what a later cookie must have in common with this one to replace it."""
        return self.name, self.domain, self.is_host_only, self.path

    @property
    def text(self) -> str:
        """Return it as it is sent."""
        return f"{self.name}={self.value}" if self.name else self.value

    def is_expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now

    def is_sent_to(self, url: str, *, now: float) -> bool:
        """Tell whether a request for a normalised URL carries the cookie."""
        host = host_of(url)
        is_of_host = host == self.domain if self.is_host_only else domain_matches(host, self.domain)
        is_safe = url.startswith("https:") or not self.is_secure
        return is_of_host and is_safe and path_matches(path_of(url), self.path) and not self.is_expired(now)


def read_set_cookie(field: str, *, url: str, now: float, session_life: float | None = None) -> Cookie | None:
    """Return the cookie of a Set-Cookie field in a response for `url`, or None where browsers ignore it.

    One that is expired deletes what it replaces. `session_life`: seconds for which a cookie without an end is kept.
    """
    if _CONTROL.search(field):
        return None
    pair, *attributes = field.split(";")
    name, equals, value = pair.partition("=")
    name, value = (name.strip(_WS), value.strip(_WS)) if equals else ("", pair.strip(_WS))
    if not (name or value) or len(name) + len(value) > MAX_COOKIE:
        return None
    given = _read_attributes(attributes)
    domain = _read_domain(given.get("domain", ""), host_of(url))
    is_secure = "secure" in given
    if domain is None or (is_secure and not url.startswith("https:")):
        return None
    path = given.get("path", "")
    cookie = Cookie(
        name=name,
        value=value,
        domain=domain or host_of(url),
        is_host_only=not domain,
        path=path if path.startswith("/") else default_path(url),
        is_secure=is_secure,
        expires=_read_expiry(given, now, session_life),
        created=now,
        changed=now,
    )
    return cookie if _keeps_promise(cookie, given) else None


def default_path(url: str) -> str:
    """Return the path of a cookie that names none: the folder of the URL."""
    folder = path_of(url).rpartition("/")[0]
    return folder or "/"


def domain_matches(host: str, domain: str) -> bool:
    """Tell whether a host is a domain, or lies in it. An IP address lies in none."""
    return host == domain or (host.endswith(f".{domain}") and not is_address(host))


def path_matches(path: str, of_cookie: str) -> bool:
    if path == of_cookie:
        return True
    return path.startswith(of_cookie) and (of_cookie.endswith("/") or path[len(of_cookie)] == "/")


def path_of(url: str) -> str:
    """Return the path of a normalised URL."""
    return urlsplit(url).path or "/"


def is_address(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdigit()


def site_of(host: str) -> str:
    """Return the largest domain that a cookie of the host may have: its registered one, or the host itself."""
    return private_domain(host) or host


def parse_cookie_date(text: str) -> float | None:
    """Return the seconds since 1970 of a date as servers write it; None where it is none."""
    time = day = month = year = None
    for token in filter(None, _DELIMITERS.split(text)):
        if time is None and (found := _TIME.fullmatch(token)):
            time = (int(found[1]), int(found[2]), int(found[3]))
        elif day is None and (found := _DAY.fullmatch(token)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := _YEAR.fullmatch(token)):
            year = int(found[1])
    if time is None or day is None or month is None or year is None:
        return None
    if year < 100:
        year += 1900 if year >= 70 else 2000
    if year < 1601 or time > (23, 59, 59) or time[1] > 59 or time[2] > 59:
        return None
    try:
        date(year, month, day)
    except ValueError:
        return None
    return float(timegm((year, month, day, *time)))


def read_cookie_file(text: str, *, source: str) -> Iterator[Cookie]:
    """Yield the cookies of a file in Netscape's format, as browsers and curl write it: seven fields with tabs between
    them. BadInput names the line, and nothing of what it holds."""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.removeprefix(_HTTP_ONLY)
        if not line.strip() or line.startswith("#"):
            continue
        cookie = _read_line(line)
        if cookie is None:
            message = f"line {number} is no cookie: it needs 7 fields with tabs between them (Netscape format)"
            raise BadInput(message, reason="bad_cookie_file", source=source)
        yield cookie


def _read_line(line: str) -> Cookie | None:
    fields = line.split("\t")
    if len(fields) == 6:  # some programs leave an empty value out
        fields.append("")
    if len(fields) != 7 or _CONTROL.search(line.replace("\t", "")):
        return None
    domain, flag, path, secure, expires, name, value = fields
    host = domain.strip().lower().removeprefix(".")
    if not host or not re.fullmatch(r"-?[0-9]+(?:\.[0-9]+)?", expires) or not path.startswith("/"):
        return None
    is_wide = (flag.upper() == "TRUE" or domain.startswith(".")) and private_domain(host) is not None
    end = float(expires)
    return Cookie(
        name=name,
        value=value,
        domain=host,
        path=path,
        is_host_only=not is_wide,
        is_secure=secure.upper() == "TRUE",
        expires=end if end > 0 else None,
        is_private=True,
        is_given=True,
    )


def _read_attributes(attributes: list[str]) -> dict[str, str]:
    """Return the attributes by their names in lower case; of several the last one counts."""
    found: dict[str, str] = {}
    for attribute in attributes:
        name, _, value = attribute.partition("=")
        value = value.strip(_WS)
        if len(value) <= MAX_ATTRIBUTE:
            found[name.strip(_WS).lower()] = value
    return found


def _read_domain(written: str, host: str) -> str | None:
    """Return the domain of a cookie that a host sets; empty for the host alone, None where it may not set it."""
    domain = written.removeprefix(".").lower()
    if not domain:
        return ""
    if not domain.isascii():
        try:
            domain = domain.encode("latin-1").decode().encode("idna").decode()
        except UnicodeError:
            return None
    if is_address(host) or private_domain(domain) is None:  # a public suffix, or a name without a dot
        return "" if domain == host else None
    return domain if domain_matches(host, domain) else None


def _read_expiry(given: dict[str, str], now: float, session_life: float | None) -> float | None:
    longest = now + LONGEST_LIFE
    if _MAX_AGE.fullmatch(age := given.get("max-age", "")):
        seconds = int(age)
        return min(now + seconds, longest) if seconds > 0 else 0.0
    end = parse_cookie_date(given.get("expires", ""))
    if end is not None:
        return min(end, longest)
    return None if session_life is None else now + session_life


def _keeps_promise(cookie: Cookie, given: dict[str, str]) -> bool:
    """Tell whether a cookie is what its name promises: `__Secure-` and `__Host-`."""
    name = (cookie.name or cookie.value).lower()
    if not name.startswith(("__secure-", "__host-")):
        return True
    if not cookie.name or not cookie.is_secure:
        return False
    return name.startswith("__secure-") or (cookie.is_host_only and given.get("path") == "/" and "domain" not in given)
