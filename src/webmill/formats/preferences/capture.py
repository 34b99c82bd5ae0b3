"""All that is said of one capture: by its response, its page, and the files of its site.

    statements = capture_statements(url, status, headers, page=…, site=…)

`SitePreferences` is what a site says in files of its own: robots.txt, `tdmrep.json`, RSL documents. What a response
says of TDM counts instead of what the site's file says; all else counts together, and the more restrictive word wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from webmill.formats.preferences.content_usage import CURRENT, read_content_usage
from webmill.formats.preferences.directives import directive_statements, words_of_fields
from webmill.formats.preferences.page import NOTHING_STATED, PagePreferences
from webmill.formats.preferences.payment import payment_statements
from webmill.formats.preferences.robots_usage import NO_ROBOTS_USAGE, RobotsUsage
from webmill.formats.preferences.rsl import MEDIA_TYPE, RslContent
from webmill.formats.preferences.statements import Statement, bounded, make_statement
from webmill.formats.preferences.tdm import TdmLocation, find_location, parse_reservation, tdm_statement
from webmill.model import Headers

_LINK = re.compile(r'<([^<>]{1,2000})>((?:\s*+;\s*+[\w*-]++\s*+(?:=\s*+(?:"[^"]*+"|[^\s";,]*+))?+)*+)')
_SPEAKING = frozenset({"content-usage", "tdm-reservation", "tdm-policy", "x-robots-tag", "link"})
MAX_LINK_FIELD = 16_384  # characters


class SitePreferences(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of a site say."""

    robots: RobotsUsage = NO_ROBOTS_USAGE
    tdm: tuple[TdmLocation, ...] = ()
    rsl: tuple[RslContent, ...] = ()


NO_SITE = SitePreferences()


def capture_statements(
    url: str,
    status: int,
    headers: Headers,
    *,
    page: PagePreferences = NOTHING_STATED,
    site: SitePreferences = NO_SITE,
    agent: str = "webmill",
    revision: str = CURRENT,
) -> list[Statement]:
    """Return what is said of a capture, each once; nothing for most."""
    found = payment_statements(status, headers)
    speaking = any(name in _SPEAKING for name in headers)
    if speaking:
        found += header_statements(headers, agent=agent, revision=revision)
    found += directive_statements(page.robots, source="meta:robots")
    path = path_of(url)
    if tdm := _tdm(headers if speaking else Headers(), page, site.tdm, path):
        found.append(tdm)
    found += site.robots.statements(path, revision=revision)
    for content in (*page.rsl, *site.rsl):
        if content.matches(url):
            found += content.statements()
    return bounded(found) if found else found


def header_statements(headers: Headers, *, agent: str, revision: str = CURRENT) -> list[Statement]:
    """Return what header fields say, without TDM, for which they are but one of three places."""
    found: list[Statement] = []
    if usage := ", ".join(headers.get_all("Content-Usage")):  # several fields are one dictionary
        found += read_content_usage(usage, source="header:content-usage", revision=revision)
    words = words_of_fields(headers.get_all("X-Robots-Tag"), agent)
    found += directive_statements(words, source="header:x-robots-tag")
    for target in rsl_links(headers):
        found.append(make_statement("rsl:license", allowed=True, source="header:link", text=target))
    return found


def rsl_links(headers: Headers) -> Iterator[str]:
    """Yield the RSL documents that a response names."""
    for target, parameters in _LINK.findall(", ".join(headers.get_all("Link"))[:MAX_LINK_FIELD]):
        lower = parameters.lower()
        if MEDIA_TYPE in lower and "license" in lower:
            yield target


def license_of(headers: Headers, page: PagePreferences) -> str:
    """Return the address of the licence: of the header, or else the page."""
    for target, parameters in _LINK.findall(", ".join(headers.get_all("Link"))[:MAX_LINK_FIELD]):
        if re.search(r'rel\s*=\s*"?[^";,]*\blicense\b', parameters, re.IGNORECASE) and MEDIA_TYPE not in parameters:
            return str(target)
    return page.license


def path_of(url: str) -> str:
    """Return path and query of a URL, as rules are about."""
    at = url.find("/", url.find("://") + 3) if "://" in url else 0
    return url[at:].partition("#")[0] if at >= 0 else "/"


def _tdm(headers: Headers, page: PagePreferences, locations: Sequence[TdmLocation], path: str) -> Statement | None:
    stated = parse_reservation(headers.get("tdm-reservation"))
    if stated is not None:
        policy = (headers.get("tdm-policy") or "").strip()
        return tdm_statement(reserved=stated, policy=policy, source="header:tdm-reservation")
    stated = parse_reservation(page.tdm)
    if stated is not None:
        return tdm_statement(reserved=stated, policy=page.tdm_policy, source="meta:tdm-reservation")
    if locations and (found := find_location(locations, path)):
        return tdm_statement(reserved=found.reserved, policy=found.policy, source="tdmrep.json")
    return None
