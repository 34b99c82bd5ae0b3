"""How a URL was reached, in the one byte (`hops`) that the frontier's lines, turns and retries have for it.

Which of the fields of a `Link` the byte holds follows from the priority of the URL:

| priority | byte |
|---|---|
| `PAGE_RESOURCE` | 4 bits `resource_steps`, 4 bits for `resource_share`: 0, or 1 + the power of two below it |
| `SITEMAP`, `LATER_SITEMAP` | `sitemap_depth` |
| all others | `redirects` |

Messages and visits that an earlier webmill has written have the byte itself, under the name that is `redirects` now:
packed, it is the byte again.
"""

from __future__ import annotations

from typing import Any, Protocol

from webmill.crawl.frontier.base import PAGE_RESOURCE, SITEMAPS

MOST_SHARE_BITS = 15  # of `resource_share`: 4 bits hold the number of its bits

ReachedBy = tuple[int, int, int, int]  # redirects, sitemap_depth, resource_steps, resource_share
_FIELDS = ("redirects", "sitemap_depth", "resource_steps", "resource_share")
_DIRECTLY = (0, 0, 0, 0)


class _Reached(Protocol):
    @property
    def redirects(self) -> int: ...
    @property
    def sitemap_depth(self) -> int: ...
    @property
    def resource_steps(self) -> int: ...
    @property
    def resource_share(self) -> int: ...


def pack_hops(url: _Reached) -> int:
    """Return the byte. A URL has one kind of these, as its priority says; the others are 0."""
    if hops := url.redirects or url.sitemap_depth:
        return hops
    if url.resource_steps or url.resource_share:  # asked first: most links have none of them, and links are many
        return url.resource_steps << 4 | min(url.resource_share.bit_length(), MOST_SHARE_BITS)
    return 0


def reached_by(url: _Reached) -> dict[str, Any]:
    """Return these fields by their names: the visit of a URL keeps them for its revisit."""
    return {name: getattr(url, name) for name in _FIELDS}


def unpack_hops(priority: int, hops: int) -> ReachedBy:
    """Return the last four fields of a `Link`. A share comes back as the power of two below it."""
    if not hops:
        return _DIRECTLY
    if priority == PAGE_RESOURCE:
        return 0, 0, hops >> 4, 1 << (hops & 15) >> 1
    return (0, hops, 0, 0) if priority in SITEMAPS else (hops, 0, 0, 0)
