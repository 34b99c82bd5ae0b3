"""Finds the newest capture of addresses."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from webmill.errors import NotFound, WebmillError
from webmill.formats.url.surt import surt
from webmill.index.lookup.newest import newest_captures as newest_of_keys
from webmill.model import CaptureRef
from webmill.serve.site import Site

log = logging.getLogger(__name__)


def newest_captures(site: Site, urls: Iterable[str]) -> dict[str, CaptureRef]:
    """Return the newest capture of each address, without addresses that have no readable one."""
    keys = {url: surt(url) for url in urls if url}
    try:
        found = newest_of_keys(site.index(), keys.values())
    except NotFound:  # searchable documents need not be archived here
        return {}
    except WebmillError as error:  # show the hits without their captures
        log.warning("cannot look up captures", extra={"why": str(error)})
        return {}
    return {url: found[key] for url, key in keys.items() if key in found}
