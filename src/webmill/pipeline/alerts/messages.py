"""A message for people: subject, plain text and HTML. All that comes from the web is cleaned, and escaped in HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping

import msgspec

from webmill.errors import BadInput
from webmill.infra.notify.base import Notification
from webmill.pipeline.alerts.types import AlertChange, AlertMessage

VERBS = {"added": "new", "changed": "changed", "removed": "removed", "moved": "moved"}
LONGEST = 300  # characters of a title in a message
PAGE = """\
<!doctype html>
<html><head><meta charset="utf-8"><title>{subject}</title></head>
<body style="font-family: sans-serif; line-height: 1.4; max-width: 46em">
<p>{summary}</p>
{changes}
<p style="color: #666">{end}</p>
</body></html>
"""
CHANGE = """\
<div style="margin: 1.2em 0">
<div><b>{kind}</b> · <a href="{diff}">{title}</a></div>
<div style="color: #666; word-break: break-all">{url}</div>
{excerpts}<div><a href="{diff}">what changed</a> · <a href="{archived}">archived page</a></div>
</div>
"""
EXCERPT = "color: #222; white-space: pre-wrap; background:"
DELETED = f'<div style="{EXCERPT} #fdecea"><del>{{}}</del></div>\n'
INSERTED = f'<div style="{EXCERPT} #e8f5e9"><ins style="text-decoration: none">{{}}</ins></div>\n'
END = "Sent by webmill for the collection {collection}; its rules are the [[alert]] in webmill.toml. Message {id}."


def render_message(body: bytes) -> Notification:
    """Return a message of the outbox in all its forms. BadInput: it is none."""
    try:
        message = msgspec.json.decode(body, type=AlertMessage)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"not a message of the outbox: {error}", reason="bad_message") from error
    subject, summary = make_subject(message), describe(message)
    return Notification(
        id=message.id,
        subject=subject,
        text="\n".join(_text_lines(message, summary)),
        html=PAGE.format(
            subject=html.escape(subject),
            summary=html.escape(summary),
            changes="".join(map(_change_html, message.changes)) + _omitted_html(message),
            end=html.escape(_end(message)),
        ),
        payload=body,
    )


def make_subject(message: AlertMessage) -> str:
    """Return `news: 1 new, 2 changed`; of a single change its title, too."""
    start = "[test] " * message.is_test + f"{clean(message.collection)}: {describe_counts(message.counts)}"
    return f"{start}: {title_of(message.changes[0])}" if sum(message.counts.values()) == 1 else start


def describe(message: AlertMessage) -> str:
    total = sum(message.counts.values())
    pages = f"{total:,} page{'s' * (total != 1)}"
    return f"{pages} of {clean(message.collection)}: {describe_counts(message.counts)}"


def describe_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[kind]:,} {verb}" for kind, verb in VERBS.items() if counts.get(kind)) or "no changes"


def title_of(change: AlertChange) -> str:
    return clean(change.title) or clean(change.url)


def clean(text: str) -> str:
    """Return a text in one line, without characters that are not seen and not too long."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _text_lines(message: AlertMessage, summary: str) -> Iterator[str]:
    yield summary
    for change in message.changes:
        yield ""
        yield f"{VERBS[change.kind].upper()}: {title_of(change)}"
        yield clean_url(change.url)
        if change.moved_to:
            yield f"is now {clean_url(change.moved_to)}"
        yield from (f"- {line}" for line in _lines(change.removed))
        yield from (f"+ {line}" for line in _lines(change.added))
        yield f"What changed: {change.links.diff}"
        yield f"Archived page: {change.links.archived}"
    if message.omitted:
        yield f"\n… and {message.omitted:,} more."
    yield f"\n-- \n{_end(message)}"


def _lines(excerpt: str) -> list[str]:
    return [line for raw in excerpt.splitlines() if (line := clean(raw))]


def clean_url(url: str) -> str:
    return "".join(one if one.isprintable() and not one.isspace() else "%20" for one in url)


def _change_html(change: AlertChange) -> str:
    removed, added = (html.escape("\n".join(_lines(excerpt))) for excerpt in (change.removed, change.added))
    url = clean_url(change.url) + (f" → {clean_url(change.moved_to)}" if change.moved_to else "")
    return CHANGE.format(
        kind=VERBS[change.kind],
        title=html.escape(title_of(change)),
        url=html.escape(url),
        excerpts=DELETED.format(removed) * bool(removed) + INSERTED.format(added) * bool(added),
        diff=html.escape(change.links.diff),
        archived=html.escape(change.links.archived),
    )


def _omitted_html(message: AlertMessage) -> str:
    return f"<p>… and {message.omitted:,} more.</p>" if message.omitted else ""


def _end(message: AlertMessage) -> str:
    return END.format(collection=clean(message.collection), id=message.id)
