"""Which capture of an address to show when only the address is known."""

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
    """By address; those without a good capture are left out."""
    keys = {url: surt(url) for url in urls if url}
    try:
        found = newest_of_keys(site.index(), keys.values())
    except NotFound:  # what can be searched need not be archived here
        return {}
    except WebmillError as error:  # what was found is worth showing without it
        log.warning("captures cannot be looked up", extra={"why": str(error)})
        return {}
    return {url: found[key] for url, key in keys.items() if key in found}
