"""Add fields to the JSON of CDXJ lines.

Constant fields are spliced in before the closing brace, after a decoder that builds nothing has proved that the rest
of the line is a JSON object without these keys. Only a line that has one of the keys is parsed and written anew: the
value is replaced in place. New text is formatted as the rest of the line (`", "` and `": "` as pywb, or compact).

A line that is not CDXJ is passed on unchanged, and counted. Appending to lines of one urlkey and timestamp can change
their order.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from webmill.errors import Misconfigured
from webmill.formats.cdx.cdxj import parts_of
from webmill.index.lines import Batch

AddField = Callable[[str, str, dict[str, Any]], dict[str, Any]]

MAX_REPORTED = 20
_NOT_PROVED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(slots=True)
class AddFieldCounts:
    """`changed` + `skipped` is the number of lines. `failures` holds the first errors of a user's function."""

    changed: int = 0
    skipped: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)


class _Present:
    """The type of a key that must not be there."""


def _refuse(_type: type, _value: object) -> NoReturn:
    raise ValueError("the key is there")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_parse = json.JSONDecoder(parse_constant=_refuse_constant).decode


def add_fields(batches: Iterable[Batch], fields: Mapping[str, str], *, counts: AddFieldCounts) -> Iterator[Batch]:
    """Yield each line with the fields added, values as strings."""
    if not fields:
        raise Misconfigured("no field to add: give at least one KEY=VALUE")
    splice = _Splice(fields)
    for batch in batches:
        done = splice.splice_batch(batch)
        if done is None:
            done = [splice.splice_line(line, counts) for line in batch]
        else:
            counts.changed += len(batch)
        yield done


def add_by_function(batches: Iterable[Batch], function: AddField, *, counts: AddFieldCounts) -> Iterator[Batch]:
    """Yield each line with its JSON replaced by what `function(urlkey, timestamp, data)` returns.

    Where the function fails or returns no dict, the line stays as it is, and the failure is counted with its line
    number.
    """
    number = 0
    for batch in batches:
        yield [_by_function(line, function, counts, number) for number, line in enumerate(batch, start=number + 1)]
        number += len(batch)


def load_function(path: Path) -> AddField:
    """Return the function `addfield` of a Python file, which is executed."""
    names: dict[str, Any] = {"__name__": "webmill_addfield", "__file__": str(path)}
    try:
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), names)  # noqa: S102  # that is what --function is for
    except Exception as error:  # whatever that file does wrong is for its author to see
        raise Misconfigured(f"cannot load {path}: {type(error).__name__}: {error}") from error
    function = names.get("addfield")
    if not callable(function):
        raise Misconfigured(f"{path} does not define addfield(surt_key, timestamp, json_data)")
    return function  # type: ignore[no-any-return]


class _Splice:
    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = dict(fields)
        names = {f"field{number}": name for number, name in enumerate(self.fields)}
        try:
            types = [(field, _Present, None) for field in names]
            absent = msgspec.defstruct("Absent", types, rename=names, gc=False)
            pairs = [(_quoted(name), _quoted(value)) for name, value in self.fields.items()]
        except (ValueError, UnicodeEncodeError) as error:
            raise Misconfigured(f"cannot add this field: {error}") from error
        self._prove = msgspec.json.Decoder(absent, dec_hook=_refuse).decode
        self._spaced = b", ".join(name + b": " + value for name, value in pairs)
        self._compact = b",".join(name + b":" + value for name, value in pairs)

    def splice_batch(self, batch: Batch) -> Batch | None:
        """The fast path: every line well-formed, without these keys, formatted alike. Else None."""
        # Behind a urlkey, 14 digits and two spaces. Where that is not so, there is no JSON object at this place.
        texts = [line[line.find(b" ") + 16 :] for line in batch]
        try:
            deque(map(self._prove, texts), maxlen=0)
        except _NOT_PROVED:
            return None
        if {text[-2] for text in texts} != {ord("}")}:  # spaces at the end of a line
            return None
        # An object that shows a colon this early is not empty.
        formats = {_is_spaced(head) for head in {text[:12] for text in texts}}
        if len(formats) > 1 or None in formats:
            return None
        end = (b", " + self._spaced if True in formats else b"," + self._compact) + b"}\n"
        return [line[:-2] + end for line in batch]

    def splice_line(self, line: bytes, counts: AddFieldCounts) -> bytes:
        """The slow path, for any line."""
        key, stamp, text = _parts(line)
        try:
            self._prove(text)
            body = text[:-1].rstrip()  # without the brace
        except msgspec.ValidationError:  # one of the keys is there, or it is no object
            return self._rewrite(line, counts)
        except _NOT_PROVED:
            counts.skipped += 1
            return line
        counts.changed += 1
        spaced = _is_spaced(text) is not False
        joint = b"" if body == b"{" else b", " if spaced else b","
        return b"%b %b %b%b%b}\n" % (key, stamp, body, joint, self._spaced if spaced else self._compact)

    def _rewrite(self, line: bytes, counts: AddFieldCounts) -> bytes:
        key, stamp, text = _parts(line)
        data = _object(text)
        if data is None:
            counts.skipped += 1
            return line
        counts.changed += 1
        return b"%b %b %b\n" % (key, stamp, _dump_like(data | self.fields, text))


def _parts(line: bytes) -> tuple[bytes, bytes, bytes]:
    """Return urlkey, timestamp and JSON: `{}` where there is none, all empty without a timestamp."""
    parts = parts_of(line.strip(b"\n "))
    if len(parts) == 2 and parts[1].isdigit():
        return parts[0], parts[1], b"{}"
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else (b"", b"", b"")


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        data = _parse(text.decode())
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _is_spaced(text: bytes) -> bool | None:
    """Whether a space follows the first colon; None where `text` shows no colon after a key."""
    colon = text.find(b'":')
    return None if colon < 0 or colon + 2 == len(text) else text[colon + 2 : colon + 3] == b" "


def _dump_like(data: dict[str, Any], like: bytes) -> bytes:
    """Return the JSON of `data` with the separators of `like`, and in ASCII if `like` is."""
    separators = (",", ":") if _is_spaced(like) is False else (", ", ": ")
    text = json.dumps(data, separators=separators, ensure_ascii=like.isascii())
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which needs an escape
        return json.dumps(data, separators=separators).encode()


def _quoted(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()


def _by_function(line: bytes, function: AddField, counts: AddFieldCounts, number: int) -> bytes:
    key, stamp, text = _parts(line)
    data = _object(text)
    if data is None:
        counts.skipped += 1
        return line
    try:
        result = function(key.decode("utf-8", "surrogateescape"), stamp.decode("latin-1"), data)
        if not isinstance(result, dict):
            raise TypeError(f"addfield returned {type(result).__name__}, not a dict")
        dumped = _dump_like(result, text)
    except Exception as error:  # noqa: BLE001  # the function is the operator's; its error is counted and named
        counts.skipped += 1
        counts.failed += 1
        if len(counts.failures) < MAX_REPORTED:
            counts.failures.append(f"line {number}: {type(error).__name__}: {error}")
        return line
    counts.changed += 1
    return b"%b %b %b\n" % (key, stamp, dumped)
