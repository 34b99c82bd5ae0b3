"""The text of a capture, extracted when it is asked for, to compare captures that are in no version.

The parser runs in a child with limits, one for all requests of a process: a hostile page costs its own request.
"""

from __future__ import annotations

import weakref

from webmill.errors import BadInput, NotFound
from webmill.extract.capture import SANDBOX_FUNCTION, SANDBOX_LIMITS
from webmill.extract.extractors import default_extractor
from webmill.extract.recipe import CaptureInput, ExtractResult, Recipe
from webmill.infra.sandbox import Sandbox
from webmill.model import CaptureRef, Document
from webmill.pipeline.captures import nearest_captures
from webmill.serve.captures.closed import open_for_client
from webmill.serve.site import Site

LONGEST = 16 << 20  # bytes of a record


class CaptureTexts:
    """Reads captures of a site. Threads may share it and take turns."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._sandbox = Sandbox(SANDBOX_FUNCTION, returns=ExtractResult, limits=SANDBOX_LIMITS)
        weakref.finalize(self, self._sandbox.close)  # with the application, or at the end of the process

    def read(self, url: str, timestamp: str) -> Document:
        """Return the document of the capture of this second. NotFound: there is none, or it cannot be read."""
        index, files = self._site.index(), self._site.files
        found = next(nearest_captures(index, url, moment=timestamp), None)
        if found is None or found.capture.timestamp != timestamp:
            raise NotFound(f"there is no capture of this address at {timestamp}")
        opened = open_for_client(self._site, index, found.capture)
        opened.close()
        original = opened.original  # of a revisit, the capture that has the body
        if original.length > LONGEST:
            raise NotFound("this capture is too large to compare")
        data = files.read(original.filename, start=original.offset, length=original.length)
        return self._extract(original, data)

    def _extract(self, capture: CaptureRef, data: bytes) -> Document:
        asked = CaptureInput(ref=capture, recipe=Recipe(extractor=default_extractor()))
        try:
            return self._sandbox.call(data, capture=asked).document
        except BadInput as error:
            raise NotFound(f"the text of this capture cannot be read: {error.message}") from error
