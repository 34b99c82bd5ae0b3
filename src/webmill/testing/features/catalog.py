"""The list of all features, as documented in docs/reference/test-web.md."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from webmill.testing.exchange import SimulatedHost
from webmill.testing.features import (
    changes,
    charsets,
    codings,
    files,
    framing,
    html_bombs,
    page_markup,
    page_resources,
    redirects,
    robots,
    sitemaps,
    slow_answers,
    statuses,
    traps,
    university,
)
from webmill.testing.features.base import Feature, FeatureHost

_MODULES = (
    robots,
    sitemaps,
    redirects,
    statuses,
    files,
    changes,
    page_markup,
    charsets,
    codings,
    traps,
    slow_answers,
    framing,
    html_bombs,
    university,
    page_resources,
)


def all_features() -> tuple[Feature, ...]:
    """Return new features for each web: a few of them count their requests."""
    return tuple(feature for module in _MODULES for feature in module.features())


def feature_hosts(features: tuple[Feature, ...]) -> dict[str, SimulatedHost]:
    by_host = groupby(sorted(features, key=lambda f: f.host), key=lambda f: f.host)
    return {host: FeatureHost(group) for host, group in by_host}


def forbidden_addresses() -> Mapping[str, tuple[str, int]]:
    """Return names that resolve to addresses a crawler must never connect to. Nothing listens there."""
    return {
        "private.names.test": ("10.0.0.8", 80),
        "metadata.names.test": ("169.254.169.254", 80),
        "loopback.names.test": ("127.0.0.1", 1),
        "mapped.names.test": ("::ffff:127.0.0.1", 1),
    }
