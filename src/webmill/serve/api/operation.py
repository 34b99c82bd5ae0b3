"""What a route is for programs: one declaration, from which requests are parsed and `/openapi.json` is written.

A route with an `Operation` is a `DescribedRoute`; the document is made of those that the application really has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from starlette.routing import Route

JSON = "application/json"
MARKDOWN = "text/markdown; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
_CONVERTOR = re.compile(r"\{(\w+):\w+\}")

Form: TypeAlias = Literal["problem", "message"]  # of errors: problem+json, or {"message": …} as clients of CDX expect


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. `kind`: the type that its JSON is made of. `media_types`: none if it has no body."""

    about: str
    kind: Any = None
    media_types: Sequence[str] = (JSON,)
    headers: Mapping[str, str] = {}  # with what they say


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A method of a route. `name` is for ever: generated clients make a function of it.

    `query`, `path`, `headers`: structs whose fields are the parameters. `form`: of a POST. `errors`: statuses beside
    those that every route may answer.
    """

    name: str
    tag: str
    summary: str
    about: str = ""
    method: Literal["get", "post"] = "get"
    query: type[msgspec.Struct] | None = None
    path: type[msgspec.Struct] | None = None
    headers: type[msgspec.Struct] | None = None
    form: type[msgspec.Struct] | None = None
    replies: Mapping[int, Reply]
    errors: Sequence[int] = ()
    error_form: Form = "problem"
    is_conditional: bool = False  # it has an ETag


class DescribedRoute(Route):
    """A route that programs ask. `template`: its path in OpenAPI, if that says more than the route's own."""

    def __init__(
        self, path: str, endpoint: Callable[..., Any], operation: Operation, *, template: str = "", **options: Any
    ) -> None:
        super().__init__(path, endpoint, methods=["POST"] if operation.method == "post" else None, **options)
        self.operation = operation
        self.template = template or _CONVERTOR.sub(r"{\1}", path)
