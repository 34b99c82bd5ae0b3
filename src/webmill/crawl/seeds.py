"""Where a crawl begins, and where it must not go: URLs and domains from arguments and files.

    for seed in read_seeds(["example.com"], files=[Path("sites.txt")]):
        if isinstance(seed, Rejected): ...

One URL or domain per line. Blank lines and those that begin with `#` are nothing, and so is what stands behind ` #`.
What has no scheme gets `https://`, as in the address bar of a browser; `http://` where a browser would take that: for
`localhost`, for addresses (`127.0.0.1`) and where a port is given (`example.com:8080`). Files are read line by line:
millions are no matter. A line that is no seed is handed out as `Rejected`, never dropped, and does not stop the rest.

| reason | the line |
|---|---|
| bad_url | is no URL |
| scheme | is one, but not of http or https |
| bad_host | has a host that cannot be looked up: a single word, a space or comma in it (a table?), an address of mail |
| credentials | names a user or a password, which are never sent |
| url_too_long | is longer than a URL may be |
| not_a_domain | (of exclusions) is a host below a domain, or a public suffix: the unit is what somebody registered |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from webmill.crawl.page.url_joining import without_user
from webmill.errors import BadInput, Misconfigured
from webmill.formats.url.domains import registered_domain
from webmill.formats.url.normalise import MAX_URL, host_of, normalise

ARGUMENTS = "arguments"
_LONGEST_LINE = 1 << 16
_COMMENT = re.compile(r"(?:\A|\s)#.*", re.DOTALL)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:(?:/|(?![0-9]+(?:[/?#]|\Z)))")  # but not `example.com:8080`
_AUTHORITY = re.compile(r"[^/?#\\]*")
_WITH_PORT = re.compile(r".*:[0-9]+\Z", re.DOTALL)
_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,62})\.)+[a-z0-9-]{1,63}\.?|localhost")
_ADDRESS = re.compile(r"[0-9.]+|\[[0-9a-f:.]+\]")


class Rejected(msgspec.Struct, frozen=True):
    source: str  # the file, or `arguments`
    line: int  # from 1
    text: str  # its first 200 characters
    reason: str


def read_seeds(urls: Iterable[str], *, files: Iterable[Path] = ()) -> Iterator[str | Rejected]:
    """Normalised URLs, in their order; the same may come twice. Misconfigured for a file that cannot be read."""
    numbered = chain(_number(urls), chain.from_iterable(map(_lines, files)))
    return _read(numbered, seed_of)


def read_domains(path: Path) -> Iterator[str | Rejected]:
    """Domains to leave alone, as `frontier.base.domain_of` names them."""
    return _read(_lines(path), excluded_domain)


def seed_of(text: str) -> str:
    """The URL that a person means. BadInput with a reason of the table above."""
    if len(text) > MAX_URL:
        raise BadInput(f"{len(text)} characters, at most {MAX_URL}", reason="url_too_long")
    url = normalise(text if _SCHEME.match(text) else _with_scheme(text))
    if without_user(url) != url:
        raise BadInput("user names and passwords are never sent", reason="credentials")
    host = host_of(url)
    if not (_NAME.fullmatch(host) or _ADDRESS.fullmatch(host)):
        raise BadInput(f"no host that can be looked up: {host[:80]!r}", reason="bad_host")
    return url


def excluded_domain(text: str) -> str:
    """`example.com`, `*.example.com` or `.example.com`, or a URL of it."""
    host = host_of(seed_of(text.removeprefix("*").removeprefix("."))).removesuffix(".")
    if _ADDRESS.fullmatch(host) or host == "localhost":
        return host
    domain = registered_domain(host)
    if domain is None or domain != host.removeprefix("www."):
        raise BadInput(
            f"{host!r} is not a registered domain; to leave out one of its hosts give a pattern", reason="not_a_domain"
        )
    return domain


def _with_scheme(text: str) -> str:
    text = text.removeprefix("//")
    authority = _AUTHORITY.match(text)[0].lower()  # type: ignore[index]  # it matches nothing, too
    if "@" in authority or any(map(str.isspace, authority)):
        raise BadInput(f"no host: {authority[:80]!r}", reason="bad_host")
    is_plain = authority == "localhost" or _ADDRESS.fullmatch(authority) or _WITH_PORT.fullmatch(authority)
    return f"{'http' if is_plain and not authority.endswith(':443') else 'https'}://{text}"


def _read(lines: Iterable[tuple[str, int, str]], read: Callable[[str], str]) -> Iterator[str | Rejected]:
    for source, number, line in lines:
        text = _COMMENT.sub("", line, count=1).strip()
        if not text:
            continue
        try:
            yield read(text)
        except BadInput as error:
            yield Rejected(source, number, text[:200], error.reason)


def _number(urls: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    for number, url in enumerate(urls, start=1):
        yield ARGUMENTS, number, url


def _lines(path: Path) -> Iterator[tuple[str, int, str]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(_bounded_lines(file), start=1):
                text = line.decode("utf-8", "replace")
                yield str(path), number, text.removeprefix("\ufeff") if number == 1 else text
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read ({error.strerror}): name a file of URLs, one per line") from error


def _bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """A file without line ends is one line, whose rest is skipped."""
    while line := file.readline(_LONGEST_LINE):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(_LONGEST_LINE)
        yield line
