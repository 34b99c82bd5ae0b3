"""Parse robots.txt (RFC 9309) as Google's parser does: any bytes are accepted, never an error.

    robots = parse_robots(body)
    rules = robots.for_agent("webmill")
    rules.allows("/path?query"), rules.crawl_delay, robots.sitemaps

Tolerated as by Google: misspelled names, a missing colon, white space anywhere, any line end, a byte order mark, lines
of any length. Beyond Google: UTF-16, NUL bytes, `Crawl-delay`. docs/reference/robots.md has the rules.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

import msgspec

from webmill.formats.site.robots_match import (
    RobotsMatcher,
    RobotsRule,
    is_plain,
    normalise_by_google,
    normalise_by_rfc,
    to_octets,
)
from webmill.formats.url.normalise import MAX_URL

MAX_BODY = 500 * 1024
MAX_LINE = 8 * 2083 - 1  # Google's: eight times the longest URL of an old browser
MAX_SITEMAPS = 1000

_USER_AGENT, _ALLOW, _DISALLOW, _SITEMAP, _DELAY = range(5)
# Names are matched by prefix: Google takes `Disallow-all: /x` for a Disallow, and so do we.
_KINDS = {
    "user-agent": _USER_AGENT,
    "useragent": _USER_AGENT,
    "user agent": _USER_AGENT,
    "allow": _ALLOW,
    "disallow": _DISALLOW,
    "dissallow": _DISALLOW,
    "dissalow": _DISALLOW,
    "disalow": _DISALLOW,
    "diasllow": _DISALLOW,
    "disallaw": _DISALLOW,
    "sitemap": _SITEMAP,
    "site-map": _SITEMAP,
    "crawl-delay": _DELAY,
    "crawldelay": _DELAY,
    "crawl delay": _DELAY,
}
_NAME = re.compile("|".join(_KINDS), re.IGNORECASE).match
LINE_END = re.compile(r"\r\n|\r|\n")
_TOKEN = re.compile(r"[A-Za-z_-]+").match
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:e\+?[0-9]{1,4})?|\.[0-9]+", re.IGNORECASE).fullmatch
SPACE = " \t\v\f"
_BOMS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class RobotsGroup(msgspec.Struct):
    """A group of lines: agents, then rules. A delay applies to the agents named since the last delay before it: it
    does not end the group, but those who write one after each agent mean that agent alone.
    """

    agents: dict[str, list[int]] = {}  # the lists of agents that each is in
    rules: list[RobotsRule] = []
    delays: list[float | None] = []  # the longest of each list of agents

    def add_agent(self, agent: str) -> None:
        if not self.delays or self.delays[-1] is not None:
            self.delays.append(None)
        lists = self.agents.setdefault(agent, [])
        if len(self.delays) - 1 not in lists[-1:]:
            lists.append(len(self.delays) - 1)

    def add_delay(self, seconds: float) -> None:
        """Take a delay for the agents named last. One without agents before it applies to none."""
        if self.delays:
            self.delays[-1] = max(seconds, self.delays[-1] or 0.0)

    def delay_of(self, agent: str) -> float | None:
        delays = (self.delays[place] for place in self.agents.get(agent, ()))
        return max((seconds for seconds in delays if seconds is not None), default=None)


class RobotsTxt(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed robots.txt."""

    groups: tuple[RobotsGroup, ...] = ()
    sitemaps: tuple[str, ...] = ()  # as written, perhaps relative or of another host
    cut: bool = False  # the file was longer than MAX_BODY
    unknown_lines: int = 0  # neither empty nor understood
    dropped_sitemaps: int = 0  # too many, or too long

    def for_agent(self, agent: str) -> RobotsRules:
        """Return the rules of all groups of this agent (`webmill/1.0` means `webmill`), or else those of `*`."""
        token = agent.partition("/")[0].strip().lower()
        groups = [group for group in self.groups if token in group.agents]
        rules = [rule for group in groups or self._groups_of("*") for rule in group.rules]
        delay = _longest_delay(groups, token)
        return RobotsRules(rules, crawl_delay=_longest_delay(self._groups_of("*"), "*") if delay is None else delay)

    def _groups_of(self, agent: str) -> list[RobotsGroup]:
        return [group for group in self.groups if agent in group.agents]


class RobotsRules:
    """The rules for one agent.

    RFC 9309 decodes escapes of unreserved characters before comparing, Google's matcher does not. A path is allowed if
    both interpretations allow it; they differ only if a rule or the path has such escapes, or a raw space or quote.
    """

    __slots__ = ("_google", "_rfc", "crawl_delay")

    def __init__(self, rules: Iterable[RobotsRule] = (), *, crawl_delay: float | None = None) -> None:
        self.crawl_delay = crawl_delay
        rules = list(rules)
        self._rfc = RobotsMatcher(rules, normalise_by_rfc)
        same = all(normalise_by_rfc(pattern) == normalise_by_google(pattern) for _, pattern in rules)
        self._google = self._rfc if same else RobotsMatcher(rules, normalise_by_google)

    def allows(self, path_and_query: str) -> bool:
        """Return whether the path and query of a URL, such as `/a?b`, may be requested."""
        path = path_and_query if path_and_query.startswith("/") else f"/{path_and_query}"
        if path.startswith("/robots.txt") and path[11:12] in ("", "?"):
            return True
        if is_plain(path) and self._google is self._rfc:
            return self._rfc.allows(path)
        path = to_octets(path)
        spelled, as_google_does = normalise_by_rfc(path), normalise_by_google(path)
        if not self._rfc.allows(spelled):
            return False
        return (self._google is self._rfc and spelled == as_google_does) or self._google.allows(as_google_does)


def parse_robots(body: bytes) -> RobotsTxt:
    """Parse the body of a robots.txt."""
    cut = len(body) > MAX_BODY
    text = decode_body(_cut_at_line_end(body) if cut else body)
    groups: list[RobotsGroup] = []
    sitemaps: dict[str, None] = {}
    unknown = dropped = 0
    closed = True  # the next user-agent line begins a group
    for kind, value in _lines(text):
        if kind is None:
            unknown += 1
        elif kind == _USER_AGENT:
            if closed:
                groups.append(RobotsGroup())
            closed = False
            if agent := agent_token(value):
                groups[-1].add_agent(agent)
        elif kind == _SITEMAP:
            dropped += not _keep_sitemap(value, sitemaps)
        elif groups:  # rules before the first group apply to no agent
            # Only Allow and Disallow end the list of agents: other lines MUST NOT interfere (RFC, 2.2.4).
            closed = closed or kind != _DELAY
            _add(groups[-1], kind, value)
    return RobotsTxt(
        groups=tuple(groups), sitemaps=tuple(sitemaps), cut=cut, unknown_lines=unknown, dropped_sitemaps=dropped
    )


def _cut_at_line_end(body: bytes) -> bytes:
    end = max(body.rfind(b"\n", 0, MAX_BODY), body.rfind(b"\r", 0, MAX_BODY))
    return body[: end + 1]


def decode_body(body: bytes) -> str:
    """Return one character per byte of UTF-8 (or whatever it is): rules are compared by octets."""
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            text = body.decode(encoding, "replace").lstrip("\ufeff")
            return text.encode("utf-8", "surrogatepass").decode("latin-1")
    for mark in (b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"):  # Google also tolerates an incomplete mark
        if body.startswith(mark):
            body = body[len(mark) :]
            break
    # This also makes ASCII in UTF-16 without a mark readable.
    return body.replace(b"\0", b"").decode("latin-1")


def _lines(text: str) -> Iterator[tuple[int | None, str]]:
    for line in LINE_END.split(text):
        line = line[:MAX_LINE].partition("#")[0].strip(SPACE)
        if line:
            yield _read(line)


def _read(line: str) -> tuple[int | None, str]:
    known = _NAME(line)
    if not known:
        return None, ""
    name, colon, value = line.partition(":")
    # A missing colon: `Disallow /x`, `Sitemap https://…`
    if not colon or (value.startswith("//") and len(name) > known.end()):
        words = line[known.end() :].split()
        if len(words) != 1 or not line[known.end()].isspace():
            return None, ""
        value = words[0]
    return _KINDS[known[0].lower()], value.strip(SPACE)


def agent_token(value: str) -> str:
    """Return the product token: `*`, or the leading letters, `_` and `-`; empty if there are none."""
    if value == "*" or (value.startswith("*") and value[1].isspace()):
        return "*"
    token = _TOKEN(value)
    return token[0].lower() if token else ""


def _add(group: RobotsGroup, kind: int, value: str) -> None:
    if kind == _DELAY:
        if _NUMBER(value):
            group.add_delay(min(float(value), sys.float_info.max))
    elif value.startswith(("/", "*")):  # others cannot match a path
        allow = kind == _ALLOW
        group.rules.append((allow, value))
        slash = value.rfind("/")
        if allow and value.startswith("/index.htm", slash):
            group.rules.append(
                (allow, value[: slash + 1] + "$")
            )  # as Google does: the index page of a folder is the folder


def _keep_sitemap(value: str, kept: dict[str, None]) -> bool:
    if not value or value in kept:
        return True
    if len(value) > MAX_URL or len(kept) >= MAX_SITEMAPS:
        return False
    kept[value.encode("latin-1").decode("utf-8", "replace")] = None
    return True


def _longest_delay(groups: Iterable[RobotsGroup], agent: str) -> float | None:
    """Return the longest delay, which is the most polite if a file contradicts itself."""
    delays = [delay for group in groups if (delay := group.delay_of(agent)) is not None]
    return max(delays, default=None)
