"""/openapi.json: the OpenAPI 3.1 document of an application, made of the routes that it has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from webmill import __version__
from webmill.serve.api.operation import JSON, DescribedRoute, Operation, Reply
from webmill.serve.api.query import fields_of
from webmill.serve.http.error_bodies import PROBLEM, ErrorMessage, ProblemDetails
from webmill.serve.http.tagged_response import tagged_response

API_VERSION = "1.0"  # the minor number grows with each addition; a change that breaks clients needs /api/v2
REFERENCE = "#/components/schemas/{name}"
TAGS = {
    "captures": "Captures of URLs: the CDX API, Memento, and what was archived.",
    "documents": "Published documents: search, lists, one as JSON or Markdown.",
    "versions": "Versions of the data set, and what changed between them.",
    "files": "The files of the collection, as they lie on its disk.",
    "operations": "How the server and the collection are.",
}
# Any route may answer these: the guard before them, full queues, files that are damaged.
COMMON_ERRORS = {
    400: "The request is not valid.",
    401: "This needs the token of the server.",
    403: "Another site sent this, or saving is switched off.",
    404: "There is no such thing here, or nothing is published, indexed or crawled yet.",
    409: "Something changed in the meantime: ask again.",
    412: "It is another one than `If-Match` says.",
    413: "The request is too large.",
    416: "The range is not within it.",
    421: "The server does not answer to this host name.",
    422: "The same request would fail again: it takes too long, or the stored data is damaged.",
    429: "Too many requests from this client; `Retry-After` says when to go on.",
    451: "This was taken down.",
    503: "Too many requests at once, or the stored data is damaged; `Retry-After` says when to try again.",
}
ALWAYS = (421, 429, 503)
BEFORE_PARSING = {  # by the connection itself, in one line of text
    408: "The request took too long to arrive.",
    413: "Its body is too large.",
    431: "Its line and headers are too large.",
}
NOT_MODIFIED = "The client has it already (`If-None-Match`)."
_IN_PATH = re.compile(r"\{(\w+)\}")


def openapi_document(routes: Iterable[BaseRoute], *, title: str, address: str) -> dict[str, Any]:
    """Return the document of all routes that are described."""
    described = [route for route in routes if isinstance(route, DescribedRoute)]
    schemas = Schemas([kind for route in described for kind in kinds_of(route.operation)])
    paths: dict[str, dict[str, Any]] = {}
    for route in described:
        paths.setdefault(route.template, {})[route.operation.method] = describe(route, schemas)
    used = {route.operation.tag for route in described}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": API_VERSION,
            "description": f"A collection of web archives, served by webmill {__version__}. Names are stable: a later "
            "webmill may add routes, parameters and fields, but removes none. `HEAD` is answered wherever `GET` is.",
        },
        "servers": [{"url": address}],
        "tags": [{"name": name, "description": about} for name, about in TAGS.items() if name in used],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def kinds_of(operation: Operation) -> list[Any]:
    replies = [reply.kind for reply in operation.replies.values() if reply.kind is not None]
    return [*replies, ProblemDetails, ErrorMessage]


class Schemas:
    """The JSON Schemas of types; a type that has a name is described once."""

    def __init__(self, kinds: Sequence[Any]) -> None:
        self._kinds = list(dict.fromkeys(kinds))
        found, self.components = msgspec.json.schema_components(self._kinds, ref_template=REFERENCE)
        self._found = list(found)

    def of(self, kind: Any) -> dict[str, Any]:
        return self._found[self._kinds.index(kind)]


def describe(route: DescribedRoute, schemas: Schemas) -> dict[str, Any]:
    operation = route.operation
    found: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.about or operation.summary,
        "parameters": parameters_of(route),
        "responses": responses_of(operation, schemas),
    }
    if operation.form:
        found["requestBody"] = {
            "required": True,
            "content": {"application/x-www-form-urlencoded": {"schema": fields_schema(operation.form)}},
        }
    if operation.method == "post":
        found["security"] = [{"token": []}]
    return found


def parameters_of(route: DescribedRoute) -> list[dict[str, Any]]:
    operation, found = route.operation, []
    names = set(_IN_PATH.findall(route.template))
    for place, kind in (("path", operation.path), ("query", operation.query), ("header", operation.headers)):
        declared = fields_schema(kind)["properties"] if kind else {}
        for field in fields_of(kind) if kind else ():
            name = field.encode_name
            if place == "path" and name not in names:
                continue
            schema = dict(declared[name])
            about = schema.pop("description", "")
            found.append(
                {
                    "name": name,
                    "in": place,
                    "required": place == "path" or field.required,
                    "schema": schema,
                    **({"description": about} if about else {}),
                }
            )
    return found


def fields_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a struct whose values are sent as text. None is a value that is not sent."""
    (root,), components = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    schema = components[root["$ref"].rpartition("/")[2]]
    for field in schema["properties"].values():
        if choices := [one for one in field.get("anyOf", ()) if one != {"type": "null"}]:
            del field["anyOf"]
            field |= choices[0]
        if field.get("default") in (None, "", [], ()):
            field.pop("default", None)
    return {name: schema[name] for name in ("type", "properties", "required") if name in schema}


def responses_of(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    found = {str(status): response_of(reply, schemas) for status, reply in operation.replies.items()}
    if operation.is_conditional:
        for response in found.values():
            response.setdefault("headers", {})["ETag"] = header_of("Of what was read.")
        found["304"] = {"description": NOT_MODIFIED, "headers": {"ETag": header_of("Of what was read.")}}
    media, kind = (PROBLEM, ProblemDetails) if operation.error_form == "problem" else (JSON, ErrorMessage)
    for status in sorted({*operation.errors, *ALWAYS}):
        if str(status) not in found:
            found[str(status)] = {
                "description": COMMON_ERRORS[status],
                "content": {media: {"schema": schemas.of(kind)}},
                **({"headers": {"Retry-After": header_of("Seconds.")}} if status in (429, 503) else {}),
            }
    for status, about in BEFORE_PARSING.items():
        if status != 413 or operation.method == "post":
            found.setdefault(str(status), {"description": about, "content": {}})["content"]["text/plain"] = {}
    return dict(sorted(found.items()))


def response_of(reply: Reply, schemas: Schemas) -> dict[str, Any]:
    found: dict[str, Any] = {"description": reply.about}
    if reply.headers:
        found["headers"] = {name: header_of(about) for name, about in reply.headers.items()}
    if reply.media_types:
        found["content"] = {
            media: {"schema": schemas.of(reply.kind)} if media == JSON and reply.kind is not None else {}
            for media in reply.media_types
        }
    return found


def header_of(about: str) -> dict[str, Any]:
    return {"description": about, "schema": {"type": "string"}}


DOCUMENT = Operation(
    name="get_openapi",
    tag="operations",
    summary="This document",
    replies={200: Reply(about="OpenAPI 3.1.", kind=dict[str, Any])},
    is_conditional=True,
)


class ApiDocument:
    """The document of an application, made when it is first asked for."""

    def __init__(self, routes: Sequence[BaseRoute], *, title: str, address: str) -> None:
        self.route = DescribedRoute("/openapi.json", self._answer, DOCUMENT)
        self._routes, self._title, self._address = [*routes, self.route], title, address

    @cached_property
    def content(self) -> dict[str, Any]:
        return openapi_document(self._routes, title=self._title, address=self._address)

    @cached_property
    def _encoded(self) -> bytes:
        return msgspec.json.encode(self.content)

    async def _answer(self, request: Request) -> Response:
        return tagged_response(request, self._encoded, media_type=JSON)
