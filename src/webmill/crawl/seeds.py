"""Where a crawl begins, and where it must not go: URLs and domains from arguments and files.

    for seed in read_seeds(["example.com"], files=[Path("sites.txt")]):
        if isinstance(seed, RejectedSeed): ...

One URL or domain per line. Blank lines and those that begin with `#` are nothing, and so is what stands behind ` #`.
What has no scheme gets `https://`, as in the address bar of a browser; `http://` where a browser would take that: for
`localhost`, for addresses (`127.0.0.1`) and where a port is given (`example.com:8080`). Files are read line by line:
there may be millions. A line that is not a seed is yielded as a `RejectedSeed`, and does not stop the rest.

| reason | the line |
|---|---|
| bad_url | is not a URL |
| scheme | is one, but not of http or https |
| bad_host | has a host that cannot be looked up: a single word, a space or comma in it (a table?), an address of mail |
| credentials | names a user or a password, which are never sent |
| url_too_long | is longer than a URL may be |
| not_a_domain | (of exclusions) is a host below a domain, or a public suffix: the unit is what somebody registered |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from webmill.crawl.page.url_joining import without_user
from webmill.errors import BadInput, Misconfigured
from webmill.formats.url.domains import registered_domain
from webmill.formats.url.normalise import MAX_URL, host_of, normalise

ARGUMENTS = "arguments"
REASONS = {
    "bad_host": "has no host that can be looked up",
    "bad_url": "is not a URL",
    "credentials": "names a user or a password, which are never sent",
    "scheme": "is not an http or https URL",
    "url_too_long": "is too long for a URL",
}
_LONGEST_LINE = 1 << 16
_COMMENT = re.compile(r"(?:\A|\s)#.*", re.DOTALL)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:(?:/|(?![0-9]+(?:[/?#]|\Z)))")  # but not `example.com:8080`
_AUTHORITY = re.compile(r"[^/?#\\]*")
_WITH_PORT = re.compile(r".*:[0-9]+\Z", re.DOTALL)
_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,62})\.)+[a-z0-9-]{1,63}\.?|localhost")
_IP_ADDRESS = re.compile(r"[0-9.]+|\[[0-9a-f:.]+\]")


class RejectedSeed(msgspec.Struct, frozen=True):
    """A line that is not a seed, with where it stood and why."""

    source: str  # the file, or `arguments`
    line: int  # from 1
    text: str  # its first 200 characters
    reason: str


class Seeds:
    """URLs and files of URLs. Lines that are not seeds are kept in `rejected`, with where they stood."""

    def __init__(self, urls: Iterable[str] = (), *, files: Iterable[Path] = ()) -> None:
        self._urls, self._files = tuple(urls), tuple(files)
        self.rejected: list[RejectedSeed] = []

    @property
    def are_given(self) -> bool:
        return bool(self._urls or self._files)

    def __iter__(self) -> Iterator[str]:
        for seed in read_seeds(self._urls, files=self._files):
            if isinstance(seed, RejectedSeed):
                self.rejected.append(seed)
            else:
                yield seed


def describe_rejected(rejected: Sequence[RejectedSeed]) -> str:
    """Return the first rejected seeds, with where they stood and why."""
    return "; ".join(
        ("" if one.source == ARGUMENTS else f"{one.source} line {one.line}: ")
        + f"{one.text!r} {REASONS.get(one.reason, one.reason)}"
        for one in rejected[:3]
    )


def read_seeds(urls: Iterable[str], *, files: Iterable[Path] = ()) -> Iterator[str | RejectedSeed]:
    """Yield normalised URLs in their order; the same may come twice. Misconfigured for a file that cannot be read."""
    numbered = chain(_number(urls), chain.from_iterable(map(_lines, files)))
    return _read(numbered, parse_seed)


def read_domains(path: Path) -> Iterator[str | RejectedSeed]:
    """Yield domains to leave alone, as `frontier.base.domain_of` names them."""
    return _read(_lines(path), parse_domain)


def parse_seed(text: str) -> str:
    """Return the URL that a person means. BadInput with a reason of the table above."""
    if len(text) > MAX_URL:
        raise BadInput(f"{len(text)} characters, at most {MAX_URL}", reason="url_too_long")
    url = normalise(text if _SCHEME.match(text) else _with_scheme(text))
    if without_user(url) != url:
        raise BadInput("user names and passwords are never sent", reason="credentials")
    host = host_of(url)
    if not (_NAME.fullmatch(host) or _IP_ADDRESS.fullmatch(host)):
        raise BadInput(f"no host that can be looked up: {host[:80]!r}", reason="bad_host")
    return url


def parse_domain(text: str) -> str:
    """Return the domain that `example.com`, `*.example.com`, `.example.com` or a URL of it names."""
    host = host_of(parse_seed(text.removeprefix("*").removeprefix("."))).removesuffix(".")
    if _IP_ADDRESS.fullmatch(host) or host == "localhost":
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
    is_plain = authority == "localhost" or _IP_ADDRESS.fullmatch(authority) or _WITH_PORT.fullmatch(authority)
    return f"{'http' if is_plain and not authority.endswith(':443') else 'https'}://{text}"


def _read(lines: Iterable[tuple[str, int, str]], read: Callable[[str], str]) -> Iterator[str | RejectedSeed]:
    for source, number, line in lines:
        text = _COMMENT.sub("", line, count=1).strip()
        if not text:
            continue
        try:
            yield read(text)
        except BadInput as error:
            yield RejectedSeed(source, number, text[:200], error.reason)


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
