"""What a document is made from: one capture with all that is known of it, as `commoncrawl.page.Page` has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from webmill.formats.http_records import HttpResponse
from webmill.formats.languages import Languages
from webmill.formats.typed_records import FileType
from webmill.formats.wat import Description
from webmill.model import Record


class Composite(Protocol):
    """Any of these may raise BadInput when it is asked for: then there is no document, but an error with its reason."""

    @property
    def capture(self) -> Record: ...
    @property
    def wet(self) -> Record | None: ...
    @property
    def offsets(self) -> Mapping[FileType, tuple[int, int]]:
        """Has a key for every file that was read."""
        ...

    @property
    def filename(self) -> str:
        """Of the WARC file."""
        ...

    @property
    def record_id(self) -> str | None: ...
    @property
    def target_uri(self) -> str | None: ...
    @property
    def date(self) -> str | None: ...
    @property
    def http(self) -> HttpResponse | None: ...
    @property
    def description(self) -> Description | None: ...
    @property
    def languages(self) -> Languages | None: ...
    @property
    def charset(self) -> str | None: ...
    @property
    def text(self) -> str | None: ...
