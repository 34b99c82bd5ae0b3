"""The page of the HTTP API, from the OpenAPI document that the server itself has."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from webmill.serve.api.openapi import API_VERSION, openapi_document
from webmill.serve.api.operation_list import DescribedOperation, DescribedParameter, described_operations
from webmill.serve.app import described_routes
from webmill.serve.open_site import open_site
from webmill.settings import Settings

ALWAYS = ("408", "421", "429", "431", "503")
ADDRESS = "http://127.0.0.1:8080"
HEAD = f"""# HTTP API

Everything that `webmill serve` answers to programs, version {API_VERSION}. The server has the same as OpenAPI 3.1 at
`/openapi.json`, as a page at `/api`, and for language models as `/llms.txt`.
[How to use it from a program](../how-to/use-the-api-from-a-program.md); how the fields of the answers hang together:
[JSON of a served collection](serve-api.md), [CDX API and Memento](cdx-api.md).

- Names are stable: a later webmill may add routes, parameters and fields (the minor version grows), but removes none.
  What breaks clients would be a new `/api/v2/` beside these.
- Errors of `/api/…`, `/documents/item.md`, `/llms.txt` and `/openapi.json` are problem details (RFC 9457,
  `application/problem+json`), with `message` beside `detail`. Those of other routes are `{{"message": "…"}}`. Browsers
  (`Accept: text/html`) get a page.
- Any route may answer 421 (a host name that is not the server's), 429 (too many requests) and 503 (too many at once, or
  damaged data), the last two with `Retry-After`; and 408 and 431, in one line of text, to what is too slow or too long.
- Answers with an `ETag` are 304 for `If-None-Match`. `HEAD` is answered wherever `GET` is.
- Where a list has `next_cursor`, repeat the request with it as `cursor` and everything else as it was, until it is
  `null`.
"""


def api_page() -> str:
    with tempfile.TemporaryDirectory() as folder:
        site = open_site(Path(folder), Settings(), address=ADDRESS, replay_address=ADDRESS, secret=b"")
        document = openapi_document(described_routes(site), title="webmill", address=ADDRESS)
    parts = [HEAD]
    for tag, about, operations in described_operations(document):
        parts += [f"## {tag.capitalize()}\n\n{about}\n", *(part for one in operations for part in operation_parts(one))]
    return "\n".join(parts)


def operation_parts(one: DescribedOperation) -> Iterator[str]:
    yield f"### {one.method} {one.path}\n\n`{one.name}`: {one.about}\n"
    if rows := [parameter_row(each) for each in one.parameters]:
        yield "| parameter | in | value | |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    own = [(status, media, about) for status, media, about in one.answers if status not in ALWAYS]
    yield "; ".join(f"{status} {f'`{media}`' if media else 'without a body'}" for status, media, _ in own) + ".\n"


def parameter_row(one: DescribedParameter) -> str:
    value = cell(one.limits) + ("; required" if one.is_required else "")
    return f"| `{one.name}` | {one.place} | {value} | {cell(one.about)} |"


def cell(text: str) -> str:
    return text.replace("|", "\\|")
