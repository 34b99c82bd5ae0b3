"""Addresses of the pages of `webmill serve` about a change, for messages and feeds."""

from __future__ import annotations

from datetime import UTC
from urllib.parse import quote, urlencode

from webmill.pipeline.alerts.types import AlertChange, ChangeLinks
from webmill.publish.changes import PageChange
from webmill.settings import ServeSettings

LONGEST_TITLE = 1000
_KEPT = "%/:?&=+,;@!$'()*[]~"


def server_address(settings: ServeSettings) -> str:
    """Return the address of the collection's server, as its settings say it."""
    if settings.address:
        return settings.address.rstrip("/")
    host = "127.0.0.1" if settings.host in ("", "0.0.0.0", "::") else settings.host  # noqa: S104  not bound here
    scheme = "https" if settings.certificate else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port or 8080}"


def change_links(change: PageChange, server: str) -> ChangeLinks:
    where = urlencode({"to": change.version, "id": change.id}, errors="replace")
    url = change.moved_to or change.url
    archived = f"/web/{change.at.astimezone(UTC):%Y%m%d%H%M%S}/{quote(url, safe=_KEPT, errors='replace')}"
    return ChangeLinks(diff=f"{server}/versions/diff?{where}", archived=server + archived)


def to_alert_change(change: PageChange, server: str) -> AlertChange:
    """Return a change as it is told."""
    return AlertChange(
        id=change.key,
        kind=change.kind,
        url=change.url,
        title=change.title[:LONGEST_TITLE],
        version=change.version,
        at=change.at,
        moved_to=change.moved_to,
        share=change.share,
        added=change.added,
        removed=change.removed,
        links=change_links(change, server),
    )
