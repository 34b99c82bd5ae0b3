"""Addresses as people write them: a path, or `SCHEME:…`."""

from __future__ import annotations


def scheme_of(url: str) -> tuple[str, str]:
    """Return the scheme and the rest: `("file", path)` for a plain path; a Windows drive is no scheme."""
    scheme, colon, rest = url.partition(":")
    if not colon or len(scheme) < 2 or "/" in scheme or "." in scheme:
        return "file", url
    return scheme.lower(), rest.removeprefix("//") if scheme.lower() == "file" else rest


def below(url: str, name: str) -> str:
    """Return the address of what is called `name` below another: `s3://BUCKET/a?region=x` has `s3://BUCKET/a/NAME?…`."""
    place, mark, options = (url, "", "") if scheme_of(url)[0] == "file" else url.partition("?")
    return f"{place.rstrip('/')}/{name}{mark}{options}"
