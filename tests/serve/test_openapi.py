"""The API as it is described, and as it is: one declaration, so that they cannot differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.serve.sample_collection import NAME
from webmill.serve.api.operation import DescribedRoute
from webmill.serve.app import _routes
from webmill.serve.site import Site

PAGES = {  # for people; forms answer their own pages
    *("/", "/api", "/search", "/documents", "/documents/item", "/versions", "/versions/{name}", "/versions/diff"),
    *("/history", "/history/compare", "/crawl", "/crawl/reports", "/corpus", "/settings", "/tasks", "/tasks/drop"),
    *("/tasks/retry", "/problems", "/qa", "/qa/{name}", "/save", "/save/{id}", "/static/{name}"),
    *("/web", "/web/{rest:archived}", "/web-banner", "/{path:archive}"),
}


@pytest.fixture
def document(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            yield path, method, one


def test_every_route_for_programs_is_described(site: Site, document: dict[str, Any]) -> None:
    routes = [route for route in _routes(site) if isinstance(route, Route)]
    plain = {route.path for route in routes if not isinstance(route, DescribedRoute)}
    assert {path for path in plain if not path.startswith("/crawl/")} == PAGES - {"/crawl/reports"}
    routed = {route.template for route in routes if isinstance(route, DescribedRoute)}
    assert routed <= document["paths"].keys()


def test_it_is_openapi_and_names_are_used_once(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    schemathesis.openapi.from_dict(document).validate()
    names = [one["operationId"] for _, _, one in operations(document)]
    assert len(names) == len(set(names)) > 30
    for path, method, one in operations(document):
        assert one["description"], (path, method)
        assert {"421", "429", "503"} <= one["responses"].keys(), (path, method)
        for parameter in one["parameters"]:
            assert parameter["schema"], (path, parameter)


def test_limits_are_those_that_are_described(client: TestClient, document: dict[str, Any]) -> None:
    """What is over a limit is refused; what is at it, is not for that reason."""
    checked = 0
    for path, _, one in operations(document):
        required = {each["name"]: "x" for each in one["parameters"] if each["in"] == "query" and each["required"]}
        for each in one["parameters"] if path.startswith("/api/") else ():
            schema, name = each["schema"], each["name"]
            for wrong, right in values_around(schema):
                answer = client.get(path, params={**required, name: wrong})
                assert answer.status_code == 400, (path, name, wrong)
                assert name in answer.json()["detail"] or "date" in answer.json()["detail"]
                assert answer.headers["content-type"] == "application/problem+json"
                answer = client.get(path, params={**required, "limit": "1", name: right})
                assert not [words for words in (f"{name} must be", f"{name} has") if words in answer.text]
                checked += 1
    assert checked > 25


def values_around(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Values that are just outside of a limit and just within it."""
    if "maximum" in schema:
        yield str(schema["maximum"] + 1), str(schema["maximum"])
    if schema.get("minimum"):
        yield str(schema["minimum"] - 1), str(schema["minimum"])
    if schema.get("maxLength", 10**9) < 5_000:
        yield "x" * (schema["maxLength"] + 1), "x" * schema["maxLength"]
    if "enum" in schema:
        yield "nonsense", schema["enum"][0]
    if schema.get("format") == "date":
        yield "soon", "2024-01-31"


def test_errors_are_problem_details_and_keep_the_message(client: TestClient) -> None:
    for path, status in (("/api/nothing", 404), ("/api/search?limit=0", 400), ("/documents/item.md", 400)):
        answer = client.get(path)
        found = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert (answer.status_code, found["status"], found["type"]) == (status, status, "about:blank")
        assert found["title"] in ("Not Found", "Bad Request")
        assert found["detail"] == found["message"]
    refused = client.get("/api/search", headers={"Host": "evil.example"})
    assert (refused.status_code, refused.headers["content-type"]) == (421, "application/problem+json")
    assert client.get("/cdx").headers["content-type"] == "application/json"
    assert client.get("/cdx").json().keys() == {"message"}


@pytest.mark.parametrize(
    "path",
    ["/api/search?q=ferry", "/api/documents", "/api/versions", "/api/versions/diff", "/openapi.json", "/llms.txt"],
)
def test_what_a_client_has_is_not_sent_again(client: TestClient, path: str) -> None:
    first = client.get(path)
    again = client.get(path, headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert first.headers["cache-control"] == "no-cache"
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_program_that_may_not_is_told_so_and_not_by_a_page(client: TestClient) -> None:
    for path, form in (("/save", {"url": "http://127.0.0.1:9/"}), ("/problems/retry", {"name": "x"})):
        answer = client.post(path, data=form)
        assert (answer.status_code, answer.headers["content-type"]) == (403, "application/json")
        page = client.post(path, data=form, headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["content-type"]) == (403, "text/html; charset=utf-8")
        assert answer.json()["message"] in page.text


# --- cursors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "field"), [("/api/search", "hits"), ("/api/documents", "items"), ("/api/versions/diff", "differences")]
)
def test_lists_are_read_in_parts_to_their_end(client: TestClient, path: str, field: str) -> None:
    whole = client.get(path, params={"limit": 100}).json()
    assert whole["next_cursor"] is None
    found: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        part = client.get(path, params={"limit": 2, "cursor": cursor}).json()
        found += part[field]
        cursor = part["next_cursor"]
    assert found == whole[field]
    assert found


def test_a_cursor_stays_with_its_version_and_its_question(client: TestClient) -> None:
    old = client.get("/api/versions").json()["versions"][0]["version"]
    first = client.get("/api/documents", params={"version": old, "limit": 1}).json()
    second = client.get("/api/documents", params={"version": old, "limit": 1, "cursor": first["next_cursor"]}).json()
    assert (second["version"], second["offset"]) == (old, 1)
    for asked in ({"limit": "1"}, {"version": old, "limit": "2"}, {"version": old, "limit": "1", "facet": "a=b"}):
        answer = client.get("/api/documents", params={**asked, "cursor": first["next_cursor"]})
        assert answer.status_code == 400
        assert "without a cursor" in answer.json()["detail"]


def test_lines_of_the_index_are_read_in_parts_and_between_keys(client: TestClient) -> None:
    whole = client.get("/api/index", params={"limit": 10_000})
    assert whole.headers["content-type"] == "text/x-cdxj; charset=utf-8"
    assert "link" not in whole.headers
    assert whole.content == client.get(f"/{NAME}-index?url=*.example&output=cdxj").content
    found, path = b"", "/api/index?limit=7"
    while path:
        part = client.get(path)
        found += part.content
        path = part.headers.get("link", "").partition(">")[0][1:]
    assert found == whole.content
    town = client.get("/api/index", params={"start": "example,town)/clock ", "end": "example,town)/clock!"})
    assert town.text.count("\n") == 72
    assert client.get("/api/index?start=%FF%FE&end=%FF%FF").content == b""
    assert client.get("/api/index", params={"crawl": "OTHER"}).status_code == 404
    assert client.get("/api/index", params={"cursor": "nonsense"}).status_code == 400
