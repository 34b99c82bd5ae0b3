"""What a request carries beside what all carry: cookies, and what the [[site]] tables say; and what answers set.

Credentials are what the user gave: cookies of a file, `auth`, `headers`, and the cookies that servers gave for them.
They are sent to the sites that they are for, and archived as `***`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import msgspec

from webmill.crawl.cookies.jar import MASK, CookieHeader, CookieJar
from webmill.crawl.cookies.store import load_cookie_file
from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.sites import CrawlSites
from webmill.formats.http.cookies import Cookie, domain_matches
from webmill.formats.http.head import end_of_head
from webmill.infra.clock import SteadyClock
from webmill.infra.plugins.loaded import NO_PLUGINS, Plugins
from webmill.settings import CrawlSettings, SiteSettings
from webmill.settings.sites_section import COOKIE_MODES

Fields = tuple[tuple[str, str], ...]

# Fields that tell no secret: they are archived as they are sent.
PLAIN_FIELDS = frozenset(
    ("accept", "accept-language", "user-agent", "from", "referer", "dnt", "sec-gpc", "cache-control")
)
# Those that a crawler or a browser adds by itself, whoever the user is.
_PLAIN_BY_ITSELF = PLAIN_FIELDS | {
    *("if-none-match", "if-modified-since", "origin", "content-type", "x-requested-with", "upgrade-insecure-requests"),
    *("sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "sec-fetch-user", "range", "last-event-id", "pragma"),
    *("access-control-request-method", "access-control-request-headers"),
}
_SET_COOKIE = re.compile(rb"(?im)^(set-cookie[ \t]*:)((?:[^\r\n]|\r?\n[ \t])*)")
_NAME = re.compile(rb"[^=;\r\n]*=")


class RequestFields(msgspec.Struct, frozen=True):
    """Fields as they are sent, and as they are archived. `cookies`: the Cookie field that is among them."""

    sent: Fields = ()
    archived: Fields = ()
    cookies: str = ""

    @property
    def is_private(self) -> bool:
        """Tell whether credentials are among them."""
        return self.sent != self.archived


NO_FIELDS = RequestFields()


class SiteSession:
    """The session of a crawler with all sites. `cookies`: keep cookies where no table says otherwise. `plugins` may add
    fields, which are archived as credentials are."""

    def __init__(
        self, jar: CookieJar, sites: CrawlSites, *, cookies: bool, clock: SteadyClock, plugins: Plugins = NO_PLUGINS
    ) -> None:
        self.jar, self.sites, self._cookies, self._clock = jar, sites, cookies, clock
        self._plugins = plugins

    def fields(self, url: str, *, browser_cookies: Fields = ()) -> RequestFields:
        """Return what a request for a normalised URL carries now. `browser_cookies`: what scripts of the page have set
        as well; beside credentials they are as private as these."""
        rule = self.sites.find(url)
        sent, archived = _fields_of(rule, url) if rule else ((), ())
        if given := self._plugins.request_fields(url):
            sent, archived = (*sent, *given), (*archived, *((name, MASK) for name, _ in given))
        cookies = self.jar.header(url, now=self._clock()) if self._keeps_cookies(rule) else None
        if cookies and browser_cookies:
            cookies = _with_browser_cookies(cookies, browser_cookies)
        if cookies and cookies.sent:
            sent, archived = (*sent, ("Cookie", cookies.sent)), (*archived, ("Cookie", cookies.archived))
        return RequestFields(sent, archived, cookies.sent if cookies else "") if sent else NO_FIELDS

    def learn(self, fetched: FetchedResponse, fields: RequestFields) -> FetchedResponse:
        """Take the cookies of a response to a request with these fields, and return it as it may be archived: the
        values that it sets for credentials are no less secret than these."""
        url = fetched.exchange.url
        if "set-cookie" not in fetched.head.headers:
            return fetched
        if self._keeps_cookies(self.sites.find(url)):
            self.jar.learn(url, fetched.head.headers, now=self._clock(), is_private=fields.is_private)
        if not fields.is_private:
            return fetched
        exchange = msgspec.structs.replace(fetched.exchange, response=mask_set_cookie(fetched.exchange.response))
        return msgspec.structs.replace(fetched, exchange=exchange)

    def _keeps_cookies(self, rule: SiteSettings | None) -> bool:
        return rule.cookies != "off" if rule and rule.cookies else self._cookies


def open_session(
    settings: CrawlSettings,
    sites: CrawlSites,
    *,
    root: Path,
    stored: Mapping[str, tuple[Cookie, ...]],
    clock: SteadyClock,
    plugins: Plugins = NO_PLUGINS,
) -> SiteSession:
    """Return a session with stored cookies, by site, and those of files, which lie in `root` if they are relative.
    Misconfigured: a file is none of cookies."""
    jar, now = CookieJar(), clock()
    has_credentials = has_cookie_file(settings) or any(rule.auth or rule.headers for rule in settings.sites)
    has_credentials = has_credentials or bool(plugins.calls("before_request"))
    for site, cookies in stored.items():  # what was given for credentials goes when they do
        jar.load(site, (one for one in cookies if has_credentials or not one.is_private), now=now)
    for cookie_list in given_cookies(settings, root).values():
        jar.give(cookie_list, now=now)
    return SiteSession(jar, sites, cookies=settings.cookies != "off", clock=clock, plugins=plugins)


def given_cookies(settings: CrawlSettings, root: Path) -> dict[Path, list[Cookie]]:
    """Return the cookies of files, by file: of a table those that one of its hosts may be sent."""
    given: dict[Path, list[Cookie]] = {}
    if has_cookie_file(settings):
        given[root / settings.cookies] = load_cookie_file(root / settings.cookies)
    for rule in settings.sites:
        if rule.cookie_file:
            path = root / rule.cookie_file
            hosts = [pattern.host for pattern in CrawlSites((rule,)).patterns]
            own = [one for one in load_cookie_file(path) if any(_may_share(one.domain, host) for host in hosts)]
            given.setdefault(path, []).extend(own)
    return given


def has_cookie_file(settings: CrawlSettings) -> bool:
    return settings.cookies not in ("", *COOKIE_MODES)


def mask_set_cookie(response: bytes) -> bytes:
    """Return a response with asterisks in place of what its Set-Cookie fields set. Its length stays as it is."""
    end = end_of_head(response) or len(response)
    return _SET_COOKIE.sub(lambda found: found[1] + _mask_pair(found[2]), response[:end]) + response[end:]


def _mask_pair(field: bytes) -> bytes:
    """Mask all of a field but the name of the cookie."""
    name = _NAME.match(field)
    shown = name[0] if name else b""
    return shown + re.sub(rb"[^\s;]", b"*", field[len(shown) :])


def _may_share(domain: str, host: str) -> bool:
    return domain_matches(domain, host) or domain_matches(host, domain)


def mask_fields(fields: Fields) -> Fields:
    """Return fields of a request with credentials as they are archived: a script of the page may have put some in."""
    return tuple((name, value if name.lower() in _PLAIN_BY_ITSELF else MASK) for name, value in fields)


def _with_browser_cookies(jar: CookieHeader, browser: Fields) -> CookieHeader:
    """Return the cookies of both; where they have the same name, that of the browser is the newer one."""
    known = dict(_split_cookie(pair) for pair in jar.sent.split("; ") if pair)
    pairs = known | dict(browser)
    sent = "; ".join(f"{name}={value}" for name, value in pairs.items())
    masked = "; ".join(f"{name}={MASK}" for name in pairs)
    return CookieHeader(sent, masked if jar.is_private else sent)


def _split_cookie(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    return (name, value) if equals else ("", name)


def _fields_of(rule: SiteSettings, url: str) -> tuple[Fields, Fields]:
    """Return what a table adds to a request for a URL, and that as it is archived."""
    fields = dict(rule.headers)
    if rule.auth:
        fields["Authorization"] = "Basic " + b64encode(rule.auth.encode()).decode()
    if not (rule.plain_http or url.startswith("https:")):
        fields = {name: value for name, value in fields.items() if name.lower() in PLAIN_FIELDS}
    if rule.user_agent:
        fields["User-Agent"] = rule.user_agent
    archived = ((name, value if name.lower() in PLAIN_FIELDS else MASK) for name, value in fields.items())
    return tuple(fields.items()), tuple(archived)
