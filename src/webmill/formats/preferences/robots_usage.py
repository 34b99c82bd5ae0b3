"""What a robots.txt says about usage: `Content-Usage` rules in groups, and `License` lines for the whole site.

    rules = read_robots_usage(body, agent="webmill")
    rules.statements("/path?query"), rules.licenses

A rule counts for the agents of its group, as Allow and Disallow do. What may be requested does not depend on it: for
RFC 9309 it is an unknown line, which ends no list of agents. The longest path wins; of rules whose paths are equally
long all count, which means the most restrictive one.
"""

from __future__ import annotations

import msgspec

from webmill.formats.preferences.content_usage import CURRENT, read_content_usage, split_robots_rule
from webmill.formats.preferences.statements import Statement
from webmill.formats.site.robots import LINE_END, MAX_BODY, MAX_LINE, SPACE, agent_token, decode_body
from webmill.formats.site.robots_match import RobotsMatcher, normalise_by_rfc, to_octets
from webmill.formats.url.normalise import MAX_URL

MAX_RULES = 200  # of one agent
MAX_LICENSES = 10
_MAX_PATH = 2000  # characters


class UsageRule(msgspec.Struct, frozen=True):
    path: str
    value: str


class RobotsUsage(msgspec.Struct, frozen=True):
    """The usage rules of one agent, and the licences of the site as they were written."""

    rules: tuple[UsageRule, ...] = ()
    licenses: tuple[str, ...] = ()
    cut: bool = False  # there were more than are kept

    def statements(self, path_and_query: str, *, revision: str = CURRENT) -> list[Statement]:
        """Return what the longest matching rule says of a path."""
        if not self.rules:
            return []
        path = normalise_by_rfc(to_octets(path_and_query))
        matching = [rule for rule in self.rules if _matches(rule.path, path)]
        longest = max((len(rule.path) for rule in matching), default=0)
        return [
            one
            for rule in matching
            if len(rule.path) == longest
            for one in read_content_usage(rule.value, source="robots:content-usage", revision=revision)
        ]


NO_ROBOTS_USAGE = RobotsUsage()


def read_robots_usage(body: bytes, *, agent: str) -> RobotsUsage:
    """Return the rules of all groups of this agent, or else those of `*`."""
    start = body[: MAX_BODY + 1].lower().replace(b"\0", b"")
    if b"content-usage" not in start and b"license" not in start:
        return NO_ROBOTS_USAGE
    groups: dict[str, list[UsageRule]] = {}
    licenses: dict[str, None] = {}
    agents: list[str] = []
    is_open = False  # the next user-agent line belongs to the same group
    for line in LINE_END.split(decode_body(body[:MAX_BODY])):
        name, colon, value = line[:MAX_LINE].partition("#")[0].partition(":")
        name, value = name.strip(SPACE).lower(), value.strip(SPACE)
        if name in ("user-agent", "useragent", "user agent"):
            agents = [*agents, agent_token(value)] if is_open else [agent_token(value)]
            is_open = True
            groups.setdefault(agents[-1], [])
        elif name in ("allow", "disallow"):
            is_open = False
        elif name == "content-usage" and colon:
            is_open = False
            for one in agents:
                groups[one].append(UsageRule(*split_robots_rule(value)))
        elif name == "license" and value and len(value) <= MAX_URL:
            licenses[value.encode("latin-1").decode("utf-8", "replace")] = None
    token = agent.partition("/")[0].strip().lower()
    rules = groups[token] if token in groups else groups.get("*", [])
    kept = [rule for rule in rules[:MAX_RULES] if len(rule.path) <= _MAX_PATH]
    is_cut = len(kept) < len(rules) or len(licenses) > MAX_LICENSES or len(body) > MAX_BODY
    return RobotsUsage(tuple(kept), tuple(licenses)[:MAX_LICENSES], is_cut)


def _matches(pattern: str, path: str) -> bool:
    return not RobotsMatcher([(False, pattern)], normalise_by_rfc).allows(path)
