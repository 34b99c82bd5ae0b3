"""The values of the column `outcome`, and the rows of captures that could not be read."""

from __future__ import annotations

from datetime import datetime

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.extract.cleaning import clean_text
from webmill.formats import timestamps
from webmill.formats.url.surt import surt
from webmill.model import CaptureRef, Document, normalise_digest


class Outcome(msgspec.Struct, frozen=True):
    """A value of the column `outcome`. `rejected`: the capture could not be read."""

    name: str
    meaning: str
    rejected: bool = False


OUTCOMES = (
    Outcome("ok", "`text` is the page's"),
    Outcome("empty", "the extractor found no text"),
    Outcome("none", "no text was asked for (`--extractor none`)"),
    Outcome("other_type", "a type that has no text (picture, style, script, …), or no reader for it is installed"),
    Outcome("rendered", "a browser has shown the page: its text is in the row of the document that the scripts made"),
    Outcome("revisit", "the content is that of an earlier capture: `digest` and `refers_to` say which"),
    Outcome("robots", "a robots.txt, which speaks to crawlers"),
    Outcome("not_response", "the record holds no content: a request, a metadata record"),
    Outcome("removed", "the page is gone (404 or 410 twice) or has moved for good (301, 308): `status` says which"),
    Outcome("not_found", "the WARC file is not there", rejected=True),
    Outcome("bad_place", "no capture can be where the index says: beyond the file's end, not a name", rejected=True),
    Outcome("bad_record", "the bytes at that place are torn, or another capture; `error` says what", rejected=True),
    Outcome("parse_limit", "the parser took too much time or memory, or the page is too long", rejected=True),
    Outcome("parse_crash", "the parser died", rejected=True),
    Outcome("parse_error", "the parser failed; `error` says how, where the page is to blame", rejected=True),
    Outcome("bad_item", "the entry of the batch is itself wrong", rejected=True),
)
REJECTED = frozenset(outcome.name for outcome in OUTCOMES if outcome.rejected)
TEXT = frozenset({"ok", "empty", "none"})  # outcomes of content types that have text

LOCATION_ERRORS = frozenset({"too_large", "bad_range", "bad_key", "bad_path"})
# Fixed messages: how a page breaks its parser varies between runs; its row must not.
PARSER_MESSAGES = {
    "parse_limit": "the page passed a limit of its parser",
    "parse_crash": "the page killed its parser",
    "parse_error": "the parser failed on the page",
}


def outcome_of_error(error: BadInput | NotFound) -> tuple[str, str]:
    """Return the outcome and message of a capture that could not be read; the message is the same every time."""
    if isinstance(error, NotFound):
        return "not_found", "the WARC file is not there"
    if error.reason in PARSER_MESSAGES:
        return error.reason, PARSER_MESSAGES[error.reason]
    message = clean_text(f"{error.reason}: {error.message}") or ""
    return ("bad_place" if error.reason in LOCATION_ERRORS else "bad_record"), message


def failed_document(ref: CaptureRef, error: BadInput | NotFound) -> Document:
    """Return the row of a capture that could not be read."""
    outcome, message = outcome_of_error(error)
    return unread_document(ref, outcome=outcome, error=message)


def unread_document(ref: CaptureRef, *, outcome: str, error: str) -> Document:
    """Return a row that only says where a capture should be, and why it was not read."""
    url, filename = clean_text(ref.url) or "", clean_text(ref.filename) or ""
    return Document(
        id=f"{filename}#{ref.offset}",
        url=url,
        urlkey=clean_text(ref.urlkey) or (surt(url) if url else ""),
        date=_date(ref.timestamp),
        digest=clean_text(normalise_digest(ref.digest)) or None,
        outcome=outcome,
        error=clean_text(error),
        warc_filename=filename,
        warc_offset=ref.offset,
        warc_length=ref.length,
    )


def _date(timestamp: str) -> datetime | None:
    try:
        return timestamps.to_datetime(timestamp) if timestamp else None
    except BadInput:
        return None
