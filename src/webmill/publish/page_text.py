"""The text of a published document: title and main text, of pages and of notices."""

from __future__ import annotations

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.infra.storage.base import Readable
from webmill.publish.blobs import read_blob
from webmill.publish.keys import blob_key
from webmill.publish.types import decode


class _PageContent(msgspec.Struct, frozen=True):
    """What is read of a blob. Blobs of notices have more, of the same names."""

    title: str | None = None
    text: str | None = None


def read_page_text(storage: Readable, hash_: str) -> str | None:
    """Return title and text in lines; None if the content cannot be read, or is no page."""
    try:
        content = decode(read_blob(storage, hash_), _PageContent, source=blob_key(hash_))
    except (NotFound, BadInput):
        return None
    return "\n".join(filter(None, (content.title, content.text)))
