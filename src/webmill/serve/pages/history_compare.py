"""/history/compare: two captures of an address, word by word."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.errors import BadInput, NotFound
from webmill.formats.timestamps import is_timestamp
from webmill.serve.api import links
from webmill.serve.api.capture_texts import CaptureTexts
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.pair_diff import VIEWS, DiffView, FieldDiff, diff_field
from webmill.serve.api.parameters import read_choice, read_text
from webmill.serve.captures.address import web_address
from webmill.serve.captures.pictures import pictures_at
from webmill.serve.http.responses import message_of
from webmill.serve.pages.language import lang_of
from webmill.serve.pages.render import render
from webmill.serve.pages.versions_diff import VIEW_NAMES, DiffTab

LONGEST_URL = 8_192


def routes(reader: ContentReader) -> list[BaseRoute]:
    texts = CaptureTexts(reader.site)

    def compare(reader: ContentReader, request: Request) -> Response:
        url = read_text(request, "url", longest=LONGEST_URL).strip()
        old, new = sorted((_timestamp(request, "old"), _timestamp(request, "new")))
        view: DiffView = "side" if read_choice(request, "view", VIEWS) == "side" else "inline"
        problem, fields, lang = "", list[FieldDiff](), ""
        try:
            was, now = texts.read(url, old), texts.read(url, new)
        except NotFound as error:
            problem = message_of(error, reader.site.root)
        else:
            lang = lang_of(now.language or "")
            pairs = {"title": (was.title, now.title), "text": (was.text, now.text)}
            values = {name: (before or "", after or "") for name, (before, after) in pairs.items()}
            fields = [diff_field(name, *both, view=view) for name, both in values.items() if both[0] != both[1]]
        return render(
            reader.site,
            request,
            "history_compare.html",
            shown=links.readable_url(url),
            history=links.history(url),
            old=old,
            new=new,
            before=web_address(old, url),
            after=web_address(new, url),
            ways=[DiffTab(VIEW_NAMES[one], _address(url, old, new, one), view == one) for one in VIEWS],
            fields=fields,
            lang=lang,
            pictures=pictures_at(reader.site, [(url, old), (url, new)]),
            problem=problem,
        )

    return [Route("/history/compare", reader.endpoint(compare))]


def _timestamp(request: Request, name: str) -> str:
    text = read_text(request, name)
    if not is_timestamp(text.encode()):
        raise BadInput(f"{name} must be the time of a capture, 14 digits: 20240131120000", reason="bad_timestamp")
    return text


def _address(url: str, old: str, new: str, view: DiffView) -> str:
    query = [("url", url), ("old", old), ("new", new), ("view", "" if view == "inline" else view)]
    return links.with_query("/history/compare", query)
