"""Which rule of a robots.txt a path meets: the most octets win, and allow wins a tie (RFC 9309, 2.2.2 and 2.2.3).

A rule is a prefix in which `*` stands for anything and a `$` at the end for the end. Nothing here backtracks: a rule is
tried in time that grows with its length plus the path's. Rules without a star, nearly all there are, are found by
bisection; of the others one piece is looked for first, and most paths do not hold it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable

import msgspec

MAX_STEPS = 50_000_000  # rules with stars times length of the path: some 0.1 s

# What stands for itself in every spelling: RFC 3986's reserved and unreserved characters, and the commonest escapes.
# The apostrophe is not among them: URLs as browsers write them escape it in a query and not in a path.
_PLAIN = re.compile(r"(?:[-!#$&()*+,./0-9:;=?@A-Z\[\]_a-z~]++|%(?:[89A-F][0-9A-F]|20))*+").fullmatch
_ESCAPE_OR_ODD = re.compile(r"%[0-9A-Fa-f]{2}|[^-!#$%&()*+,./0-9:;=?@A-Z\[\]_a-z~]")
_ESCAPE_OR_HIGH = re.compile(r"%[0-9A-Fa-f]{2}|[^\x00-\x7f]")
# RFC 3986's unreserved characters, and the two that a rule can name only by an escape.
_UNESCAPED = frozenset("-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~*$")

Spelling = Callable[[str], str]
RobotsRule = tuple[bool, str]  # allow?, and its pattern, one character per byte


class RobotsMatcher:
    """The rules of one group, under one spelling."""

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
            return False  # nobody writes so many rules in earnest, and to be polite must not cost us the day
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
    """`head*middle*…*tail`; the tail is of interest only when the pattern `ends`."""

    head: str
    middle: tuple[str, ...]
    tail: str
    ends: bool

    @classmethod
    def of(cls, pieces: list[str], *, ends: bool) -> _Glob:
        head, *rest = pieces
        if not rest:
            return cls(head, (), "", ends)
        if not ends or not rest[-1]:  # `*$` says no more than `*`, and a star at the end no more than nothing
            return cls(head, tuple(filter(None, rest)), "", False)
        return cls(head, tuple(filter(None, rest[:-1])), rest[-1], True)

    def matches(self, path: str) -> bool:
        """The first place for every piece is as good as any other."""
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
    """It is the same in every spelling."""
    return _PLAIN(path) is not None


def to_octets(path: str) -> str:
    """One character per byte, as the patterns have it."""
    return path if path.isascii() else path.encode("utf-8", "surrogatepass").decode("latin-1")


def normalise_by_rfc(text: str) -> str:
    """RFC 9309: escapes of unreserved characters are undone; what may not stand in a URL is escaped."""
    return text if is_plain(text) else _ESCAPE_OR_ODD.sub(_respell, text)


def normalise_by_google(text: str) -> str:
    """Google's matcher: only bytes beyond ASCII are escaped, and escapes are written in capitals."""
    return text if is_plain(text) else _ESCAPE_OR_HIGH.sub(_escape, text)


def _respell(found: re.Match[str]) -> str:
    text = found[0]
    if len(text) == 3 and (meant := chr(int(text[1:], 16))) in _UNESCAPED:
        return meant
    return _escape(found)


def _escape(found: re.Match[str]) -> str:
    return found[0].upper() if len(found[0]) == 3 else f"%{ord(found[0]):02X}"


def _pieces(pattern: str) -> tuple[list[str], bool]:
    """Split where the stars are, before any escape is undone: `%2A` is no star, `%24` no end."""
    ends = pattern.endswith("$")
    return pattern.removesuffix("$").split("*"), ends


def _chains(ordered: list[str], own: dict[str, int]) -> tuple[list[int], list[int]]:
    """For each prefix: where the next shorter prefix of it is (-1: nowhere), and the highest rank of it and those."""
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
