"""Rewrites scripts as little as possible: where a script asks where it is, and literal addresses of modules.

| written | becomes |
|---|---|
| `location.href`, `window.location.href`, `e.location.host` | `__wmLocation(location).href`, … |
| `top === self`, `window.top != window` | `__wmTop(top) === self`, … |
| `import.meta.url` | `__wmUrl(import.meta.url)` |
| `import x from "https://…"`, `import(y)` | the address in the zone; `import(__wmModule(y))` |
| `w.postMessage(m, origin)` | `w.postMessage(...__wmMessage(m, origin))` |

Each function gives back what it is given, unless that is the real thing: a local variable of that name is not touched.
Everything else that a script does with addresses is the shim's.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict

from webmill.errors import BadInput
from webmill.formats.javascript import ScriptPart, read_parts
from webmill.formats.url.normalise import normalise
from webmill.serve.replay.labels import ReplayZone, read_origin

MOST_CACHED = 64 << 20  # characters
_INTERESTING = re.compile(r"location|\btop\b|\bimport\b|postMessage|\bfrom\s*['\"](?:https?:)?//")
_WORD = re.compile(r"(?<![A-Za-z0-9_$#\\\x80-\U0010ffff])(?:location|top|import)(?![A-Za-z0-9_$\\\x80-\U0010ffff])")
_CHAIN = re.compile(r"(?:(?<![A-Za-z0-9_$\x80-\U0010ffff])[A-Za-z_$][A-Za-z0-9_$]{0,80}[ \t]{0,4}\.[ \t]{0,4})+\Z")
_CHAIN_WITHIN = 240  # characters
_WORD_BEFORE = re.compile(r"([A-Za-z_$][A-Za-z0-9_$]*)\s{1,8}\Z")
_NOT_BEFORE = frozenset({"new", "function", "class", "var", "let", "const", "get", "set", "async", "static", "import"})
_MEMBER = re.compile(r"\s{0,8}(?:\.(?![.0-9])|\[|\?\.(?![0-9]))")
_VALUE_BEFORE = re.compile(r"(?:(?<![=!<>])=|\breturn\s|\$\{|\+)\s{0,8}\Z")
_VALUE_AFTER = re.compile(r"\s{0,8}(?:[;,)\]}+]|\Z)")
_ONLY_ARGUMENT = re.compile(r"(?<![\s(])\(\s{0,4}\Z")
_DEFINITION = re.compile(r"(?:\bfunction\b\s*[\w$]*|\bcatch|\bif|\bwhile|\bfor|\bswitch|\bwith)\s*\(\s{0,4}\Z")
_END_OF_CALL = re.compile(r"\s{0,4}\)(?!\s{0,8}(?:=>|\{))")
_GLOBAL = re.compile(r"(?:(?:window|self|globalThis|document|parent|frames)\s*\.\s*)+\Z")
_COMPARED_AFTER = re.compile(r"\s{0,8}[!=]==?")
_COMPARED_BEFORE = re.compile(r"[!=]==?\s{0,8}\Z")
_TOP_MEMBER = re.compile(
    r"\s{0,8}\.\s{0,8}(?:location|document|frames|self|top|parent|window|length|postMessage|origin)\b"
)
_META_URL = re.compile(r"\s{0,8}\.\s{0,8}meta\s{0,8}\.\s{0,8}url(?![\w$])")
_IMPORT_CALL = re.compile(r"(?<![\w$.#])import\s{0,8}\Z")
_POST_CALL = re.compile(r"\.\s{0,8}postMessage\s{0,8}\Z")
_MODULE_NAME = re.compile(r"(?<![\w$.#])(?:from|import)\s{0,8}\Z")
_TOP_LEVEL = re.compile(r"(?<![\w$.#])(?:import(?!\s{0,8}[.(])|export)(?![\w$:=])")
_ABSOLUTE = re.compile(r"(?:(https?):)?//([^/\\?#]*)", re.IGNORECASE)
_LOOK_BACK = 32  # characters before a bracket or a string


class ScriptCache:
    """Rewritten scripts by digest of what went into them, up to a size; the least used go first."""

    def __init__(self, most: int = MOST_CACHED) -> None:
        self._most, self._size = most, 0
        self._kept: OrderedDict[bytes, str] = OrderedDict()
        self._lock = threading.Lock()

    def rewrite(self, script: str, zone: ReplayZone, timestamp: str, scheme: str) -> str:
        if not _INTERESTING.search(script):
            return script
        state = f"{zone.prefix(timestamp)} {zone.authority} {scheme}\n"
        key = hashlib.sha256((state + script).encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = rewrite_script(script, zone, timestamp, scheme)
        with self._lock:
            if key not in self._kept and len(made) <= self._most:
                self._kept[key] = made
                self._size += len(made)
            while self._size > self._most:
                self._size -= len(self._kept.popitem(last=False)[1])
        return made


def rewrite_script(script: str, zone: ReplayZone, timestamp: str, scheme: str) -> str:
    """Return the script for the zone. `scheme` is that of the archived page, for `//host/…`."""
    return _ScriptRewriter(script, zone, timestamp, scheme).rewrite()


def is_module(script: str) -> bool:
    """Return whether the script imports or exports at its top."""
    if not _TOP_LEVEL.search(script):
        return False
    depth = 0
    for part in read_parts(script):
        if part.kind in ("open", "close"):
            depth += 1 if part.kind == "open" else -1
        elif part.kind == "code" and not depth and _TOP_LEVEL.search(script, part.start, part.end + 1):
            return True
    return False


class _ScriptRewriter:
    def __init__(self, script: str, zone: ReplayZone, timestamp: str, scheme: str) -> None:
        self._script, self._zone, self._timestamp, self._scheme = script, zone, timestamp, scheme
        self._edits: list[tuple[int, int, str]] = []  # start, end, what stands there instead
        self._open: list[int | None] = []  # of each open bracket, the number of the edit that its closing one ends

    def rewrite(self) -> str:
        script = self._script
        for part in read_parts(script):
            match part.kind:
                case "code":
                    for found in _WORD.finditer(script, part.start, part.end):
                        self._word(found)
                case "open":
                    self._open.append(self._call(part))
                case "close":
                    self._end_of_call(part)
                case "string":
                    self._string(part)
                case _:
                    pass
        return self._applied()

    def _applied(self) -> str:
        out: list[str] = []
        done = 0
        for start, end, text in sorted(self._edits):
            if text and start >= done:
                out += self._script[done:start], text
                done = end
        return "".join((*out, self._script[done:]))

    def _wrap(self, start: int, end: int, function: str) -> None:
        self._edits.append((start, end, f"{function}({self._script[start:end]})"))

    # --- names

    def _word(self, found: re.Match[str]) -> None:
        match found[0]:
            case "location":
                self._location(found)
            case "top":
                self._top(found)
            case _:
                if meta := _META_URL.match(self._script, found.end()):
                    self._wrap(found.start(), meta.end(), "__wmUrl")

    def _chain_start(self, at: int) -> int | None:
        """Return where `a.b.` before a name begins; None if what stands there is more than names, or no expression."""
        before = self._script[max(0, at - _CHAIN_WITHIN) : at]
        chain = _CHAIN.search(before)
        start = at - (len(before) - chain.start()) if chain else at
        rest = self._script[max(0, start - _LOOK_BACK) : start]
        if (tail := rest.rstrip(" \t")).endswith(".") and not tail.endswith("..."):
            return None
        word = _WORD_BEFORE.search(rest)
        return None if word and word[1] in _NOT_BEFORE else start

    def _location(self, found: re.Match[str]) -> None:
        start, end = self._chain_start(found.start()), found.end()
        if start is None:
            return
        if _MEMBER.match(self._script, end) or self._is_value(start, found.start(), end):
            self._wrap(start, end, "__wmLocation")

    def _is_value(self, start: int, name: int, end: int) -> bool:
        """Return whether the location itself is taken here: `x = location`, `String(location)`, `${location}`."""
        if start != name and not _GLOBAL.fullmatch(self._script[start:name]):
            return False
        before = self._script[max(0, start - _LOOK_BACK) : start]
        if _ONLY_ARGUMENT.search(before) and not _DEFINITION.search(before):
            return bool(_END_OF_CALL.match(self._script, end))
        return bool(_VALUE_BEFORE.search(before) and _VALUE_AFTER.match(self._script, end))

    def _top(self, found: re.Match[str]) -> None:
        start, end = self._chain_start(found.start()), found.end()
        if start is None or (start != found.start() and not _GLOBAL.fullmatch(self._script[start : found.start()])):
            return
        before = self._script[max(0, start - _LOOK_BACK) : start]
        if (
            _COMPARED_AFTER.match(self._script, end)
            or _COMPARED_BEFORE.search(before)
            or _TOP_MEMBER.match(self._script, end)
        ):
            self._wrap(start, end, "__wmTop")

    # --- calls

    def _call(self, part: ScriptPart) -> int | None:
        if self._script[part.start] != "(":
            return None
        before = self._script[max(0, part.start - _LOOK_BACK) : part.start]
        if _POST_CALL.search(before):
            return self._begin(part.end, "...__wmMessage(")
        if _IMPORT_CALL.search(before):
            return self._begin(part.end, "__wmModule(")
        return None

    def _begin(self, at: int, text: str) -> int:
        self._edits.append((at, at, text))
        return len(self._edits) - 1

    def _end_of_call(self, part: ScriptPart) -> None:
        begun = self._open.pop() if self._open else None
        if begun is None:
            return
        start, _, text = self._edits[begun]
        within = self._script[start : part.start]
        if text == "__wmModule(" and (not within.strip() or "with" in within or "assert" in within):
            self._edits[begun] = (start, start, "")  # attributes are a second argument
        else:
            self._edits.append((part.start, part.start, ")"))

    # --- modules

    def _string(self, part: ScriptPart) -> None:
        found = _ABSOLUTE.match(self._script, part.start + 1, part.end - 1)
        if not found or not _MODULE_NAME.search(self._script[max(0, part.start - _LOOK_BACK) : part.start]):
            return
        there = absolute_origin(self._zone, self._timestamp, f"{found[1] or self._scheme}://{found[2]}")
        if there:
            self._edits.append((found.start(), found.end(), there))


def absolute_origin(zone: ReplayZone, timestamp: str, origin: str) -> str | None:
    """Return the origin in the zone for `https://Host:443` as it is written; None: it is not one."""
    try:
        return zone.origin_of(timestamp, read_origin(normalise(origin)))
    except BadInput:
        return None
