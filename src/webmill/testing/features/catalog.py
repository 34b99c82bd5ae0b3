"""All features together. The table of them is docs/reference/test-web.md."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from webmill.testing.exchange import Site
from webmill.testing.features import (
    boards,
    bombs,
    changes,
    charsets,
    codings,
    endless,
    files,
    framing,
    gallery,
    redirects,
    robots,
    signs,
    sitemaps,
    statuses,
    traps,
)
from webmill.testing.features.base import Feature, FeatureSite

_SHELVES = (
    robots,
    sitemaps,
    redirects,
    statuses,
    files,
    changes,
    signs,
    charsets,
    codings,
    traps,
    endless,
    framing,
    bombs,
    boards,
    gallery,
)


def all_features() -> tuple[Feature, ...]:
    """Made anew for each web: a few of them count how often they were asked."""
    return tuple(feature for shelf in _SHELVES for feature in shelf.features())


def feature_sites(features: tuple[Feature, ...]) -> dict[str, Site]:
    by_host = groupby(sorted(features, key=lambda f: f.host), key=lambda f: f.host)
    return {host: FeatureSite(group) for host, group in by_host}


def foreign_names() -> Mapping[str, tuple[str, int]]:
    """Names that resolve to addresses where a crawler must never connect. Nothing of ours listens there."""
    return {
        "private.names.test": ("10.0.0.8", 80),
        "metadata.names.test": ("169.254.169.254", 80),
        "loopback.names.test": ("127.0.0.1", 1),
        "mapped.names.test": ("::ffff:127.0.0.1", 1),
    }
