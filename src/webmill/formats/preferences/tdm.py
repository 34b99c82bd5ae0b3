"""TDM Reservation Protocol (W3C Community Group, final report of 2024-05-10): header, meta and `tdmrep.json`.

A header counts instead of a <meta> and of the file, a <meta> instead of the file: one that names neither 0 nor 1 is
none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from webmill.errors import BadInput
from webmill.formats.lenient_json import decode_object
from webmill.formats.preferences.statements import TDM, Source, Statement, make_statement
from webmill.formats.site.robots_match import RobotsMatcher, normalise_by_rfc, to_octets
from webmill.formats.url.normalise import MAX_URL

PATH = "/.well-known/tdmrep.json"
MAX_FILE = 1 << 20  # bytes
MAX_LOCATIONS = 1000


class TdmLocation(msgspec.Struct, frozen=True):
    """What a site's file says of the paths that match `location`, where `*` and `$` mean what they do in robots.txt."""

    location: str
    reserved: bool
    policy: str = ""


def parse_reservation(value: str | None) -> bool | None:
    """Return whether rights are reserved; None where nothing is said."""
    return {"1": True, "0": False}.get((value or "").strip())


def tdm_statement(*, reserved: bool, policy: str, source: Source) -> Statement:
    text = f"tdm-reservation: {reserved:d}" + (f"; tdm-policy: {policy}" if policy else "")
    return make_statement(TDM, allowed=not reserved, source=source, text=text)


def read_tdm_file(body: bytes) -> tuple[TdmLocation, ...]:
    """Return the locations of a `tdmrep.json`; none if it is not one."""
    if len(body) > MAX_FILE:
        return ()
    try:
        listed = decode_object(b'{"locations":' + body.removeprefix(b"\xef\xbb\xbf") + b"}").get("locations")
    except BadInput:
        return ()
    entries = listed[:MAX_LOCATIONS] if isinstance(listed, list) else []
    found = (_location(entry) for entry in entries if isinstance(entry, dict))
    return tuple(one for one in found if one)


def find_location(locations: Sequence[TdmLocation], path_and_query: str) -> TdmLocation | None:
    """Return the location that speaks of a path: the first that matches, as the report has it."""
    path = normalise_by_rfc(to_octets(path_and_query))
    for one in locations:
        if not RobotsMatcher([(False, one.location)], normalise_by_rfc).allows(path):
            return one
    return None


def _location(entry: Mapping[str, object]) -> TdmLocation | None:
    location, policy = entry.get("location"), entry.get("tdm-policy")
    stated = entry.get("tdm-reservation")
    if not isinstance(location, str) or len(location) > MAX_URL or isinstance(stated, bool):
        return None
    reserved = parse_reservation(str(stated)) if isinstance(stated, int | str) else None
    if reserved is None:
        return None
    pattern = location if re.match(r"[/*]", location) else f"/{location}"
    pattern = pattern.encode("utf-8", "surrogatepass").decode("latin-1")
    return TdmLocation(pattern, reserved, policy[:MAX_URL] if isinstance(policy, str) else "")
