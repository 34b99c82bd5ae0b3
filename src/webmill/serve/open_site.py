"""Builds the `Site` of `webmill serve` from settings."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from webmill.collection import PublishFolders
from webmill.infra.queue.backends import existing_queue, view_queue
from webmill.infra.queue.base import QueueOptions
from webmill.infra.storage.backends import open_storage
from webmill.pipeline.plugins import user_plugins
from webmill.pipeline.search.engines import open_engine
from webmill.pipeline.search.past import open_past_engine
from webmill.serve.guard.client_address import is_loopback
from webmill.serve.processes.shared_counters import SharedCounters
from webmill.serve.replay.labels import LongNames, ReplayZone
from webmill.serve.site import ClientLimits, QueueOpener, ShownSetting, Site
from webmill.settings import SECTIONS, Settings, file_settings


def open_site(
    root: Path,
    settings: Settings,
    *,
    address: str,
    replay_address: str,
    secret: bytes,
    zone_address: str = "",
    view_address: str = "",
    long_names: Path | None = None,
    storage: str | None = None,
    counters: SharedCounters | None = None,
) -> Site:
    """Return the site of `webmill serve`. `secret` is the same in all processes of a server.

    `zone_address`: where each archived origin has an origin of its own; without one, archived pages share
    `replay_address`. `view_address`: of the banner above those. `storage`: where versions are, if not in `root`.
    `counters`, `long_names`: shared by the processes.
    """
    serve = settings.serve
    is_private = is_loopback(serve.host) and not serve.address
    place = PublishFolders(root.resolve())
    queues = {"publish": place.queue, "extract": place.root / "queue.sqlite"}
    options = QueueOptions(name="", attempts=settings.queue.attempts, lease=settings.queue.lease)
    return Site(
        root=place.root,
        address=address,
        replay_address=replay_address,
        hosts=frozenset(serve.hosts),
        origins=frozenset(serve.origins),
        proxies=frozenset(serve.proxies),
        token=serve.token,
        secret=secret,
        limits=ClientLimits(rate=serve.rate, burst=max(1, round(4 * serve.rate))),
        settings=shown_settings(settings),
        versions=open_storage(storage or str(place.root)),
        open_engine=partial(open_engine, place.root, settings.search, create=False),
        open_past_engine=partial(open_past_engine, place.root, settings.search),
        finds_meaning=bool(settings.search.model),
        queues={
            name: QueueOpener(
                view=partial(view_queue, f"sqlite:{file}", options),
                open=partial(existing_queue, f"sqlite:{file}", options),
            )
            for name, file in queues.items()
        },
        # A server that strangers reach must not fetch for them what they name.
        can_save=bool(serve.token) or is_private,
        tells_forgotten=serve.tombstones,
        closes_noarchive=serve.noarchive == "everyone" or (serve.noarchive == "others" and not is_private),
        has_markdown=settings.extract.extractor == "markdown",
        metrics=counters or SharedCounters(),
        plugins=user_plugins(),
        zone=open_zone(place.root, zone_address, view=view_address, secret=secret, long_names=long_names),
    )


def open_zone(root: Path, address: str, *, view: str, secret: bytes, long_names: Path | None) -> ReplayZone | None:
    if not address:
        return None
    return ReplayZone(address, view=view, secret=secret, collection=str(root), long_names=LongNames(long_names))


def shown_settings(settings: Settings) -> list[ShownSetting]:
    """Return all settings for display, without passwords and tokens."""
    return [
        ShownSetting(
            section=one.section,
            about=SECTIONS[one.section].__doc__ or "",
            key=one.key,
            value=one.shown(getattr(getattr(settings, one.section), one.key)),
            default=one.text(one.default),
            description=one.description,
            variable=one.variable,
        )
        for one in file_settings()
    ]
