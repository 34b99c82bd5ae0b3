"""Requests that change something: sent by a form of ours, or by one who bears the token.

The gate has looked where a request comes from. Here it shows what it knows: the stamp of a form, which no other site
can read; and where the operator has set a token, that too, since then others than the operator can open our pages.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from webmill.serve.metrics import REFUSED
from webmill.serve.site import Site

FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 100


async def admitted(request: Request, site: Site, *, action: str) -> dict[str, str]:
    """The fields of the form, if `action` may be done: 401 or 403 if not.

    A form has the field `stamp` (`site.stamp(action)`), and `token` where the site has one. A program sends the header
    `Authorization: Bearer TOKEN` instead of both.
    """
    fields = await _fields(request)
    if _bears(site, request.headers.get("authorization", "").removeprefix("Bearer ")):
        return fields
    if site.token and not _bears(site, fields.get("token", "")):
        site.metrics.count(REFUSED, reason="token")
        raise HTTPException(401, "this needs the token of this server", {"WWW-Authenticate": "Bearer"})
    if not site.is_stamped(action, fields.get("stamp", "")):
        site.metrics.count(REFUSED, reason="token")
        raise HTTPException(403, "this form is not of this run of the server: load its page again")
    return fields


def _bears(site: Site, said: str) -> bool:
    return bool(site.token) and hmac.compare_digest(site.token.encode(), said.strip().encode("utf-8", "replace"))


async def _fields(request: Request) -> dict[str, str]:
    kind = request.headers.get("content-type", FORM).partition(";")[0].strip().lower()
    if kind != FORM:
        raise HTTPException(415, f"send this as {FORM}")
    try:
        body = (await request.body()).decode()
        return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError as error:
        raise HTTPException(400, "this form cannot be read") from error
