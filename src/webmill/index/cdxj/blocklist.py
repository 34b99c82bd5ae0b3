"""Drop index lines that match a rule of a blocklist.

A list has one regular expression per line, matched anywhere in the whole CDXJ line; empty lines and lines that begin
with `#` are ignored. The syntax is RE2's (https://github.com/google/re2/wiki/Syntax) on bytes, read as leniently as
`grep -E` where SURT rules need it: a `)` that closes nothing is a literal, `\\<` and `\\>` are word boundaries.
Look-around and back-references do not exist in RE2, so no rule can take exponential time. `.` is one byte, but
in a rule with letters beyond ASCII, `\\x` or `\\p` it is one UTF-8 character.

Rules that are `^` and literal text (or that and `.*`) become prefixes: 100,000 of them cost what 10 do. For the
others, RE2's filter first searches some hundred lines at once for literals that each rule needs.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import re2

from webmill.errors import BadInput, Misconfigured
from webmill.index.cdxj.prefixes import Prefixes
from webmill.index.lines import Batch, FilterCounts, read_lines

_LITERAL_PREFIX = re.compile(rb"\^((?:[^\\.\[(){*+?|^$]|\\[!-/:;=?@\[-`{-~]|\))+)(?:\.\*\$?)?", re.DOTALL)
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]|\\[xpP0-7]")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
# An unclosed class takes everything, and RE2 refuses it: it is not tried again from each bracket in it.
_TOKEN = re.compile(rb"\\.|\[\^?\]?+(?:\[:\^?+\w++:\]|\\.|[^\]\\])*+(?:\]|\Z)|\(\?[a-zA-Z]*+-[a-zA-Z]*m|.", re.DOTALL)
_RE2_EQUIVALENT = {rb"\<": rb"\b", rb"\>": rb"\b", rb"\A": b"^", rb"\z": b"$", rb"\C": b"."}
_UNSUPPORTED = {rb"\Q", rb"\E"}

SCAN_LINES = 512  # searched at once
MAX_SINGLE_RULES = 4  # matching rules searched one by one; with more, line by line is cheaper
FILTER_RULES = 8192  # in one filter; RE2 refuses, and we halve, what does not fit into its memory


@dataclass(frozen=True, slots=True)
class Rule:
    line: int
    text: bytes


def load_blocklist(path: Path) -> Blocklist:
    return parse_blocklist(read_lines(path), source=str(path))


def parse_blocklist(lines: Iterable[bytes], *, source: str = "blocklist") -> Blocklist:
    """Parse a blocklist. `BadInput` with the line number for a bad rule: a list is applied whole or not at all."""
    numbered = enumerate((line.removesuffix(b"\n") for line in lines), start=1)
    rules = [Rule(number, text) for number, text in numbered if text.strip() and not text.startswith(b"#")]
    return Blocklist(rules, source=source)


class Blocklist:
    """Rules ready to be applied. Holds RE2 objects, which cannot be pickled: load it in each process."""

    def __init__(self, rules: Sequence[Rule], *, source: str = "blocklist") -> None:
        self.rules = rules
        self.source = source
        self._literals: dict[bytes, Rule] = {}
        others: list[Rule] = []
        for rule in rules:
            literal = literal_prefix(rule.text)
            if literal is None:
                others.append(rule)
            else:
                self._literals.setdefault(literal, rule)
        self._prefixes = Prefixes(self._literals)
        chunks = (others[start : start + FILTER_RULES] for start in range(0, len(others), FILTER_RULES))
        self._filters = [filter_ for chunk in chunks for filter_ in _build_filters(chunk, source=source)]

    def __len__(self) -> int:
        return len(self.rules)

    def partition(self, batch: Batch) -> tuple[Batch, Batch]:
        """Return the lines that no rule matches, in order, and the blocked ones."""
        kept, blocked = self._prefixes.partition(batch)
        for filter_ in self._filters:
            kept, more = filter_.partition(kept)
            blocked += more
        return kept, blocked

    def rule_for(self, line: bytes) -> Rule:
        """Return the rule that blocks a blocked line: for reports, not for filtering."""
        for end in range(1, len(line) + 1):
            if rule := self._literals.get(line[:end]):
                return rule
        return next(rule for filter_ in self._filters for rule in filter_.matching(line))


def literal_prefix(pattern: bytes) -> bytes | None:
    """Return the prefix that a rule matches, if it is nothing but a prefix; else None."""
    found = _LITERAL_PREFIX.fullmatch(pattern)
    return _ESCAPED.sub(rb"\1", found[1]) if found else None


def to_re2(pattern: bytes) -> bytes:
    """Return the rule for RE2, safe to search in several lines at once. `ValueError` for what RE2 cannot express."""
    depth = 0
    converted = []
    for token in _TOKEN.findall(pattern):
        if token in _UNSUPPORTED or (len(token) > 2 and token.startswith(b"(?")):
            raise ValueError(f"{token.decode('latin-1')} is not supported")
        depth += (token == b"(") - (token == b")")
        if depth < 0:
            depth, token = 0, rb"\)"
        converted.append(_RE2_EQUIVALENT.get(token, token))
    return b"(?m)(?:" + b"".join(converted) + b")"


def block(
    batches: Iterable[Batch],
    blocklist: Blocklist,
    *,
    tally: FilterCounts,
    max_removed_share: float = 1.0,
    by_rule: Counter[int] | None = None,
) -> Iterator[Batch]:
    """Yield the lines that no rule matches. Input need not be sorted; sorted input is faster.

    `tally` is complete at the end. If more than `max_removed_share` was removed, it ends with `Misconfigured`: a caller
    that commits its output only after the last batch loses nothing. `by_rule` counts blocked lines by the
    rule's line number.
    """
    for batch in batches:
        kept, blocked = blocklist.partition(batch)
        tally.kept += len(kept)
        tally.removed += len(blocked)
        if by_rule is not None:
            by_rule.update(blocklist.rule_for(line).line for line in blocked)
        if kept:
            yield kept
    if tally.removed_share > max_removed_share:
        raise Misconfigured(
            f"{blocklist.source} removes {tally.removed} of {tally.total} lines ({tally.removed_share:.1%}), "
            f"more than the {max_removed_share:.1%} allowed: correct the rule that matches too much, or allow more"
        )


class _Filter:
    def __init__(self, rules: Sequence[Rule], *, source: str) -> None:
        self.rules = rules
        self._filter = re2.Filter()
        for rule in rules:
            _add(self._filter, rule, source=source)
        self._filter.Compile()

    def matching(self, line: bytes) -> list[Rule]:
        return [self.rules[index] for index in self._filter.Match(line.removesuffix(b"\n")) or ()]

    def partition(self, batch: Batch) -> tuple[Batch, Batch]:
        kept: Batch = []
        blocked: Batch = []
        for start in range(0, len(batch), SCAN_LINES):
            lines = batch[start : start + SCAN_LINES]
            hits = self._hits(lines)
            if not hits:
                kept += lines
                continue
            for place, line in enumerate(lines):
                (blocked if place in hits else kept).append(line)
        return kept, blocked

    def _hits(self, lines: Batch) -> set[int]:
        text = b"".join(lines)
        rules = self._filter.Match(text) or ()
        if len(rules) > MAX_SINGLE_RULES:
            return {place for place, line in enumerate(lines) if self._filter.Match(line.removesuffix(b"\n"))}
        ends = list(accumulate(map(len, lines)))
        return {place for rule in rules for place in _matching_lines(self._filter.re(rule), text, ends)}


def _matching_lines(pattern: re2._Regexp, text: bytes, ends: list[int]) -> Iterator[int]:
    """Yield the numbers of the lines that a pattern matches; `ends` are the offsets where lines end."""
    start = 0
    while start < len(text) and (found := pattern.search(text, start)):
        place = bisect_right(ends, found.start())
        if place == len(ends):  # `^$` also matches behind the last newline, where there is no line
            return
        yield place
        start = ends[place]


def _build_filters(rules: list[Rule], *, source: str) -> list[_Filter]:
    try:
        return [_Filter(rules, source=source)]
    except re2.error as error:
        if len(rules) == 1:
            raise _bad_rule(rules[0], "too large for RE2", source=source) from error
        middle = len(rules) // 2
        return _build_filters(rules[:middle], source=source) + _build_filters(rules[middle:], source=source)


def _add(filter_: re2.Filter, rule: Rule, *, source: str) -> None:
    options = re2.Options()
    if not _BEYOND_ASCII.search(rule.text):
        options.encoding = re2.Options.Encoding.LATIN1  # lines hold whatever bytes the web sent
    options.never_nl = True  # so that no match runs over the end of a line
    options.never_capture = True
    options.log_errors = False
    try:
        pattern = to_re2(rule.text)
        rule.text.decode()
        re2.compile(pattern, options=options)  # says what is wrong; Add does not
    except UnicodeDecodeError:
        raise _bad_rule(rule, "not UTF-8", source=source) from None
    except re2.error as error:
        message = error.args[0]
        text = message.decode("latin-1") if isinstance(message, bytes) else str(message)
        raise _bad_rule(rule, text, source=source) from None
    except ValueError as error:
        raise _bad_rule(rule, str(error), source=source) from None
    filter_.Add(pattern, options)


def _bad_rule(rule: Rule, why: str, *, source: str) -> BadInput:
    text = rule.text.decode("utf-8", "backslashreplace")
    return BadInput(f"bad rule {text!r}: {why}", reason="bad_pattern", source=f"{source}:{rule.line}")
