"""Find the rule of a robots.txt that applies to a path: most octets win, allow wins a tie (RFC 9309, 2.2.2, 2.2.3).

A rule is a prefix in which `*` matches anything and a `$` at the end matches the end. Nothing backtracks: matching a
rule takes time linear in its length plus the path's. Rules without a star, nearly all, are found by bisection; for the
others one piece is searched first, which most paths do not contain.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable

import msgspec

MAX_STEPS = 50_000_000  # rules with stars times the length of the path: about 0.1 s

# What both normalisations leave unchanged: RFC 3986's reserved and unreserved characters, and common escapes.
# The apostrophe is not among them: URLs as browsers write them escape it in a query and not in a path.
_PLAIN = re.compile(r"(?:[-!#$&()*+,./0-9:;=?@A-Z\[\]_a-z~]++|%(?:[89A-F][0-9A-F]|20))*+").fullmatch
_ESCAPE_OR_ODD = re.compile(r"%[0-9A-Fa-f]{2}|[^-!#$%&()*+,./0-9:;=?@A-Z\[\]_a-z~]")
_ESCAPE_OR_HIGH = re.compile(r"%[0-9A-Fa-f]{2}|[^\x00-\x7f]")
# RFC 3986's unreserved characters, and the two that a rule can name only by an escape.
_UNESCAPED = frozenset("-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~*$")

Spelling = Callable[[str], str]
RobotsRule = tuple[bool, str]  # allow?, and its pattern, one character per byte


class RobotsMatcher:
    """The rules of one agent, normalised in one way."""

    def __init__(self, rules: Iterable[RobotsRule], spelling: Spelling) -> None:
        exact: dict[str, int] = {}
        prefixes: dict[str, int] = {}
        wild: dict[_Glob, int] = {}
        for allow, pattern in rules:
            pieces, ends = _pieces(pattern)
            pieces = [spelling(piece) for piece in pieces]
            # Octets of the pattern, stars and dollar included; the low bit makes allow win among equals.
            rank = 2 * (sum(map(len, pieces)) + pattern.count("*") + ends) + allow
            glob = _Glob.of(pieces, ends=ends)
            if glob.middle or (glob.tail and glob.ends):
                wild[glob] = max(rank, wild.get(glob, 0))
            else:
                kind = exact if glob.ends else prefixes
                kind[glob.head] = max(rank, kind.get(glob.head, 0))
        self._exact = exact
        self._prefixes = sorted(prefixes)
        self._shorter, self._ranks = _chains(self._prefixes, prefixes)
        self._longest = MAX_STEPS // max(1, len(wild))
        self._wild = sorted(((rank, glob.rarest(), glob) for glob, rank in wild.items()), key=lambda rule: -rule[0])

    def allows(self, path: str) -> bool:
        if len(path) > self._longest:
            return False  # no sincere file has so many rules, and matching must not take all day
        rank = self._exact.get(path, 1)  # 1: no rule, so allowed
        # All strings between a prefix of the path and the path begin with that prefix. So the longest one is the
        # greatest of those that do not come after the path, or one of the prefixes of that one.
        at = bisect_right(self._prefixes, path) - 1
        while at >= 0 and not path.startswith(self._prefixes[at]):
            at = self._shorter[at]
        if at >= 0 and self._ranks[at] > rank:
            rank = self._ranks[at]
        for higher, piece, glob in self._wild:
            if higher <= rank:
                break
            if piece in path and glob.matches(path):
                rank = higher
                break
        return bool(rank & 1)


class _Glob(msgspec.Struct, frozen=True):
    """A pattern `head*middle*…*tail`; the tail counts only if the pattern `ends`."""

    head: str
    middle: tuple[str, ...]
    tail: str
    ends: bool

    @classmethod
    def of(cls, pieces: list[str], *, ends: bool) -> _Glob:
        head, *rest = pieces
        if not rest:
            return cls(head, (), "", ends)
        if not ends or not rest[-1]:  # `*$` means the same as `*`, and a star at the end means nothing
            return cls(head, tuple(filter(None, rest)), "", False)
        return cls(head, tuple(filter(None, rest[:-1])), rest[-1], True)

    def matches(self, path: str) -> bool:
        """Return whether the path matches; taking the first occurrence of each piece is enough."""
        if not path.startswith(self.head):
            return False
        at = len(self.head)
        for piece in self.middle:
            at = path.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return not self.ends or (len(path) - len(self.tail) >= at and path.endswith(self.tail))

    def rarest(self) -> str:
        return max((self.head, *self.middle, self.tail), key=len)


def is_plain(path: str) -> bool:
    """Return whether both normalisations leave the path unchanged."""
    return _PLAIN(path) is not None


def to_octets(path: str) -> str:
    """Return one character per byte, as in the patterns."""
    return path if path.isascii() else path.encode("utf-8", "surrogatepass").decode("latin-1")


def normalise_by_rfc(text: str) -> str:
    """Normalise by RFC 9309: decode escapes of unreserved characters, and escape what a URL may not contain."""
    return text if is_plain(text) else _ESCAPE_OR_ODD.sub(_decode_unreserved, text)


def normalise_by_google(text: str) -> str:
    """Normalise as Google's matcher: escape only bytes beyond ASCII, and write escapes in upper case."""
    return text if is_plain(text) else _ESCAPE_OR_HIGH.sub(_escape, text)


def _decode_unreserved(found: re.Match[str]) -> str:
    text = found[0]
    if len(text) == 3 and (meant := chr(int(text[1:], 16))) in _UNESCAPED:
        return meant
    return _escape(found)


def _escape(found: re.Match[str]) -> str:
    return found[0].upper() if len(found[0]) == 3 else f"%{ord(found[0]):02X}"


def _pieces(pattern: str) -> tuple[list[str], bool]:
    """Split at the stars, before escapes are decoded: `%2A` is not a star, `%24` not the end."""
    ends = pattern.endswith("$")
    return pattern.removesuffix("$").split("*"), ends


def _chains(ordered: list[str], own: dict[str, int]) -> tuple[list[int], list[int]]:
    """Return, for each prefix, the index of its next shorter prefix (-1: none), and the highest rank of all of
    these."""
    shorter: list[int] = []
    ranks: list[int] = []
    open_: list[int] = []
    for at, prefix in enumerate(ordered):
        while open_ and not prefix.startswith(ordered[open_[-1]]):
            open_.pop()
        parent = open_[-1] if open_ else -1
        shorter.append(parent)
        ranks.append(max(own[prefix], ranks[parent]) if parent >= 0 else own[prefix])
        open_.append(at)
    return shorter, ranks
