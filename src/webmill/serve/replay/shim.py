"""The shim: a script that comes before all others of an archived page or worker, so that they meet the web they knew.

It maps addresses between the web and the zone wherever scripts hand them over (shim_parts/, one subject each). It is no
boundary: what it misses, the policy of the zone stops (`zone_policy.py`).
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

import msgspec

from webmill.serve.replay.labels import OriginAtTime, ReplayZone

OWN = "/.webmill-replay/"  # the zone's own paths; no page is archived below it
PARTS = ("1-addresses", "2-location", "3-cookies", "4-hooks", "5-elements", "6-page", "7-install")


@cache
def shim_body() -> str:
    folder = files("webmill.serve.replay") / "shim_parts"
    return "\n".join((folder / f"{name}.js").read_text("utf-8") for name in PARTS)


SHIM_PATH = f"{OWN}shim-{hashlib.sha256(shim_body().encode()).hexdigest()[:16]}.js"
SHIM_TAG = f'<script src="{SHIM_PATH}"></script>'


def render_shim(zone: ReplayZone, here: OriginAtTime) -> str:
    """Return the shim for one origin of the zone."""
    config = {
        "scheme": f"{zone.scheme}:",
        "suffix": f".{zone.authority}",
        "prefix": zone.prefix(here.timestamp),
        "label": zone.label(here.timestamp, here.origin),
        "origin": str(here.origin),
        "view": zone.view,
        "shim": SHIM_PATH,
    }
    return f'(() => {{\n"use strict";\nconst CONFIG = {msgspec.json.encode(config).decode()};\n{shim_body()}\n}})();\n'
