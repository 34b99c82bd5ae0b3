"""The operations of an OpenAPI document for people: on the page /api, and in the reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec


class DescribedParameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter as a page shows it."""

    name: str
    place: str
    about: str
    limits: str
    is_required: bool


class DescribedOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as a page shows it."""

    name: str
    method: str
    path: str
    summary: str
    about: str
    parameters: list[DescribedParameter]
    answers: list[tuple[str, str, str]]  # status, media types, about


def described_operations(document: Mapping[str, Any]) -> list[tuple[str, str, list[DescribedOperation]]]:
    """Return the operations by tag, with what the tag says."""
    found: dict[str, list[DescribedOperation]] = {tag["name"]: [] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            found[one["tags"][0]].append(describe_operation(method, path, one))
    return [(tag["name"], tag["description"], found[tag["name"]]) for tag in document["tags"]]


def describe_operation(method: str, path: str, one: Mapping[str, Any]) -> DescribedOperation:
    form = one.get("requestBody", {}).get("content", {}).get("application/x-www-form-urlencoded", {}).get("schema", {})
    fields = [
        {"name": name, "in": "form", "schema": schema, "required": name in form.get("required", ())}
        for name, schema in form.get("properties", {}).items()
    ]
    return DescribedOperation(
        name=one["operationId"],
        method=method.upper(),
        path=path,
        summary=one["summary"],
        about=one["description"],
        parameters=[describe_parameter(each) for each in (*one["parameters"], *fields)],
        answers=[
            (status, ", ".join(kind.partition(";")[0] for kind in answer.get("content", {})), answer["description"])
            for status, answer in one["responses"].items()
        ],
    )


def describe_parameter(parameter: Mapping[str, Any]) -> DescribedParameter:
    schema = parameter["schema"]
    return DescribedParameter(
        name=parameter["name"],
        place=parameter["in"],
        about=parameter.get("description", schema.get("description", "")),
        limits=", ".join(limits_of(schema)),
        is_required=parameter["required"],
    )


def limits_of(schema: Mapping[str, Any]) -> Iterable[str]:
    """Yield what a value may be, in words."""
    if "enum" in schema:
        yield " | ".join(map(str, schema["enum"]))
    elif schema.get("type") == "array":
        yield f"repeatable, at most {schema['maxItems']:,}" if "maxItems" in schema else "repeatable"
    elif schema.get("type") == "integer":
        yield f"{schema.get('minimum', 0):,} to {schema['maximum']:,}" if "maximum" in schema else "a number"
    else:
        yield schema.get("format") or "text"
    if "maxLength" in schema:
        yield f"at most {schema['maxLength']:,} characters"
    if "default" in schema:
        yield f"default {schema['default']}"
