"""Make the document of one capture, found by an index or in a whole file.

    stored bytes ─▶ one WARC record, of the right URL ─┐
    content of a record ───────────────────────────────┴▶ HTTP ─▶ kind ─▶ text, title, language ─▶ Document

What the record states takes precedence over an index or the crawler. So the same capture gives the same document,
whichever way it was read.

Call it in a sandbox, as `SANDBOX_FUNCTION` with `SANDBOX_LIMITS`: the input is hostile. PDF files are read by the same
child as pages, so that a worker needs only one; they are granted more CPU time than a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from webmill.errors import BadInput
from webmill.extract.body import CaptureBody, read_body
from webmill.extract.cleaning import absolute_url, clean_text, clean_texts, media_type
from webmill.extract.content import ExtractedContent, UnreadableContent
from webmill.extract.kinds import READABLE, ContentKind, content_kind, is_robots_url
from webmill.extract.outcomes import PARSER_MESSAGES
from webmill.extract.recipe import CaptureInput, ExtractResult, HasCapture, Recipe, capture_input, rebuild_record
from webmill.extract.usage import with_usage
from webmill.formats import timestamps
from webmill.formats.cld2 import detect_languages, top_level_domain
from webmill.formats.http.head import end_of_head
from webmill.formats.url.surt import surt
from webmill.formats.warc import digest
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.http_records import HttpResponse, read_response
from webmill.formats.warc.single_record import read_record_at
from webmill.infra.child import ChildLimits
from webmill.infra.child_loop import grant_cpu
from webmill.infra.plugins.costs import spent_on
from webmill.model import Document, DocumentLink, Record, normalise_digest

SANDBOX_FUNCTION = "webmill.extract.capture:make_in_child"
MIB = 1 << 20
SANDBOX_LIMITS = ChildLimits(cpu=10, wall=300, memory=1024 * MIB, output=64 * MIB, written=MIB, may_fork=False)
RENDERED = "urn:dom:"  # before the URL of a page: its document as the scripts left it
RECORD_LIMITS = WarcLimits(block=32 * MIB)
MIN_LANGUAGE_TEXT = 200  # characters of text that are enough to detect its language
MAX_LANGUAGE_TEXT, MAX_LANGUAGE_PAGE = (
    1 << 15,
    1 << 17,
)  # characters given to the detector: more hardly changes the result

Allow = Callable[[float], None]


def make_in_child(payload: bytes, *, capture: CaptureInput) -> ExtractResult:
    """Return the same as `make_document`, with its own allowance of CPU time for every call."""
    made = make_document(payload, capture=capture, allow=grant_cpu)
    plugins = capture.recipe.load_plugins()
    return msgspec.structs.replace(made, spent=spent_on(plugins)) if plugins.sources else made


def document_of(page: HasCapture, *, recipe: Recipe | None = None) -> Document:
    """Return the document of a page, made in this process: a starting point for custom functions.

    Without a recipe it has the text of the WET record if there is one, else plain text.
    """
    recipe = recipe or Recipe(extractor="wet" if page.wet else "plain")
    return make_document(page.capture.content, capture=capture_input(page, recipe=recipe)).document


def make_document(payload: bytes, *, capture: CaptureInput, allow: Allow = lambda _: None) -> ExtractResult:
    """Return the document of any capture, without text if it has none, and the kind of its content.

    Raise BadInput if the bytes are not the requested capture; `outcomes.failed_document` makes its row.
    """
    record = read_requested_record(payload, capture)
    http = read_response(record.content) if record.type in ("response", "revisit") else None
    document = with_usage(describe_record(record, http, capture), http, noted=capture.usage, site=capture.site)
    kind = kind_of(document, capture)
    if outcome := "rendered" if capture.rendered else skip_reason(document, kind):
        return ExtractResult(document=msgspec.structs.replace(document, outcome=outcome), kind=kind)
    try:
        body = CaptureBody(
            data=http.content.data if http else record.content,
            url=document.url,
            content_type=http.content_type if http else record.content_type,
            wet_text=capture.wet_text,
            ignored=capture.ignored,
            allow=allow,
        )
        found = read_body(kind, body, capture.recipe)
        if not isinstance(found, UnreadableContent):
            made = capture.recipe.load_plugins().change_document(add_content(document, found, http, capture))
    except MemoryError:
        raise  # the process is out of memory; not the fault of the page
    except Exception as error:  # noqa: BLE001 - a page that breaks its parser is a row, too
        outcome, message = parse_failure(error)
        return ExtractResult(document=msgspec.structs.replace(document, outcome=outcome, error=message), kind=kind)
    if isinstance(found, UnreadableContent):
        refused = msgspec.structs.replace(document, outcome="other_type", error=found.error)
        return ExtractResult(document=refused, kind=found.kind)
    return ExtractResult(document=made, kind=found.kind)


def kind_of(document: Document, capture: CaptureInput) -> ContentKind:
    """Return the kind of content by what the record states, or else by what the index states."""
    if is_robots_url(document.url):
        return "robots"
    if not document.url.lower().startswith("http"):  # the crawler's notes about itself
        return "other"
    return content_kind(identified=document.mime_detected, declared=document.mime or media_type(capture.mime))


def skip_reason(document: Document, kind: ContentKind) -> str | None:
    """Return the outcome of a capture whose content is not read; None if it is read."""
    if document.type not in ("response", "resource", "revisit"):
        return "not_response"
    if kind == "robots":
        return "robots"
    is_known = document.type != "revisit" or document.mime or document.mime_detected  # a 304 need not state a type
    if is_known and kind not in READABLE:
        return "other_type"
    return "revisit" if document.type == "revisit" else None


def parse_failure(error: Exception) -> tuple[str, str]:
    """Return the outcome and message of a page that broke its parser; the message is the same every time."""
    if isinstance(error, BadInput):
        outcome = "parse_limit" if error.reason == "parse_limit" else "parse_error"
        return outcome, clean_text(f"{error.reason}: {error.message}") or ""
    outcome = "parse_limit" if isinstance(error, RecursionError) else "parse_error"
    return outcome, PARSER_MESSAGES[outcome]


# --- the record -------------------------------------------------------------------------------------------------------


def read_requested_record(payload: bytes, capture: CaptureInput) -> Record:
    """Return the record, after checking that it is of the requested URL."""
    if capture.headers is None:
        record = read_record_at(payload, limits=RECORD_LIMITS, offset=capture.ref.offset)
    else:
        record = rebuild_record(payload[: RECORD_LIMITS.block], capture)
    found, wanted = clean_text(record.target_uri) or "", capture.ref.url
    if wanted and found != wanted and surt(found) != surt(wanted):  # indexes may write a URL slightly differently
        raise BadInput(f"the record has another URL: {found[:200]!r}", reason="wrong_record")
    return record


def describe_record(record: Record, http: HttpResponse | None, capture: CaptureInput) -> Document:
    """Return the document with everything that is known before its content is read."""
    ref, url, headers = capture.ref, page_url(clean_text(record.target_uri) or ""), record.headers
    languages, is_revisit = clean_texts(capture.languages), record.type == "revisit"
    return Document(
        id=clean_text(record.record_id) or f"{ref.filename}#{ref.offset}",
        url=url,
        urlkey=surt(url),
        date=_date(record.date),
        status=http.status if http else None,
        mime=media_type(http.content_type if http else record.content_type),
        mime_detected=media_type(headers.get("WARC-Identified-Payload-Type")),
        digest=digest_of(record) or clean_text(normalise_digest(ref.digest)) or None,
        type=clean_text(record.type),
        truncated=clean_text(headers.get("WARC-Truncated")),
        redirect=_redirect(url, http),
        refers_to=clean_text(headers.get("WARC-Refers-To-Target-URI")) if is_revisit else None,
        last_modified=_http_date(http.last_modified) if http else None,
        language=languages[0] if languages else None,
        languages=languages,
        warc_filename=ref.filename,
        warc_offset=ref.offset,
        warc_length=ref.length,
    )


def page_url(target: str) -> str:
    """Return the URL of the page that a record is about: one of a document that a browser has shown names it."""
    return target.removeprefix(RENDERED) if target.startswith(RENDERED) else target


def digest_of(record: Record) -> str | None:
    """Return the payload digest that the record states, or else compute it if the payload is complete."""
    if stated := clean_text(record.payload_digest):
        return normalise_digest(stated)
    if record.type not in ("response", "resource") or record.cut or len(record.content) == RECORD_LIMITS.block:
        return None
    start = end_of_head(record.content) or 0 if record.type == "response" else 0
    return digest.compute(memoryview(record.content)[start:])


def _redirect(url: str, http: HttpResponse | None) -> str | None:
    is_redirect = http and http.status and 300 <= http.status < 400
    return absolute_url(url, http.location) if http and is_redirect else None


def _date(date: str | None) -> datetime | None:
    try:
        return timestamps.to_datetime(timestamps.from_warc_date(date)) if date else None
    except BadInput:
        return None


def _http_date(text: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text) if text else None
        return moment and (moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (TypeError, ValueError, IndexError, OverflowError):  # servers send anything here
        return None


# --- its content ------------------------------------------------------------------------------------------------------


def add_content(
    document: Document, found: ExtractedContent, http: HttpResponse | None, capture: CaptureInput
) -> Document:
    """Return the document completed with its extracted content."""
    text, recipe = found.text, capture.recipe
    flaw = http.content.flaw if http and not http.content.complete else None
    language = language_columns(document, found, http) if recipe.detect else {}
    if found.kind == "html":
        document = with_usage(document, http, source=found.source, noted=capture.usage, site=capture.site)
    return msgspec.structs.replace(
        document,
        text=text,
        text_chars=None if text is None else len(text),
        extractor=found.extractor,
        outcome="none" if text is None else "ok" if text.strip() else "empty",
        error=f"the body is incomplete: {flaw}" if flaw else None,
        charset=found.charset,
        links=tuple(document_links(document.url, found)) if recipe.links else None,
        **msgspec.structs.asdict(found.about),
        **language,
    )


def document_links(url: str, found: ExtractedContent) -> Iterator[DocumentLink]:
    """Yield the http and https links of the content, as absolute URLs."""
    for link in found.links:
        if address := absolute_url(found.base or url, link.url):
            yield DocumentLink(address, clean_text(link.text), clean_text(link.rel), clean_text(link.path))


def language_columns(document: Document, found: ExtractedContent, http: HttpResponse | None) -> dict[str, object]:
    """Return the language columns, detected in the text if it is long enough: that is faster than in the page, whose
    menus may be in another language."""
    text = found.text or ""
    sample = (
        text[:MAX_LANGUAGE_TEXT]
        if len(text) >= MIN_LANGUAGE_TEXT or not found.source
        else found.source[:MAX_LANGUAGE_PAGE]
    )
    stated = found.language or (http.fields.get("Content-Language") if http else None) or ""
    languages = detect_languages(
        sample.encode("utf-8", "replace"), tld=top_level_domain(document.url), content_language=stated[:256]
    )
    codes = languages.codes
    score = languages.share(codes[0]) if codes else None
    return {"language": codes[0] if codes else None, "language_score": score, "languages": codes}
