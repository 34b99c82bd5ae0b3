"""The webs that `crawling` crawls: one hundred hosts each, on addresses of their own, behind one nginx.

    small     30 pages of 12 KB a host, 50 links each
    sparse    30 pages of 4 KB a host, 14 links each
    real      the pages of the Common Crawl-like sample (1,137 real ones of 143 KB in the mean), gzip, TLS

Hosts are named by address, so that nobody needs a DNS. A real page keeps its bytes and gets two additions: a <base>
with the address that it was saved from, so that its own links lead where they led (outside: they are read, joined and
refused), and links to the other pages of its host and to three of others.
"""

from __future__ import annotations

import gzip
import os
import random
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path

from fastwarc.warc import ArchiveIterator, WarcRecordType
from tests.services.nginx import Nginx, nginx_serving
from tests.unit.crawl.fetch.certificates import Authority

HOSTS = 100
ROBOTS = "User-agent: *\nDisallow: /private/\nDisallow: /cgi-bin/\n"
WORDS = ("mill", "river", "grain", "stone", "wheel", "water", "flour", "bread", "field", "wind", "sail", "gear")
SAMPLE = "triple/CC-MAIN-20240712094214-20240712124214-00000.warc.gz"
GZIP = "gzip_static on;"
ONE_PAGE = "keepalive_timeout 0;"  # every answer ends its connection
HEAD = re.compile(rb"<head(?:\s[^>]*)?>", re.IGNORECASE)
BODY_END = re.compile(rb"</body\s*>(?!.*</body)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Web:
    """What is crawled. `authority` is the file of certificates that a client has to trust."""

    nginx: Nginx
    seeds: Path
    one_seed: Path
    pages: int
    mean: int  # bytes of a page
    authority: Path | None = None


@dataclass(frozen=True)
class Shape:
    """Of made pages."""

    pages: int = 30  # of a host
    own_links: int = 40
    other_links: int = 10
    paragraphs: int = 20


SMALL = Shape()
SPARSE = Shape(own_links=10, other_links=4, paragraphs=6)


def address(host: int) -> str:
    return f"127.0.1.{host + 1}"


@contextmanager
def made_web(shape: Shape) -> Iterator[Web]:
    """The links carry the port, so the pages are made when nginx has one."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        hosts = {address(host): root / address(host) for host in range(HOSTS)}
        with nginx_serving(hosts=hosts, addresses={host: host for host in hosts}) as nginx:
            chance, size = random.Random(1), 0  # the same pages in every run
            for host, folder in enumerate(hosts.values()):
                make_host(folder)
                for page in range(shape.pages):
                    text = made_page(host, page, nginx.port, chance, shape)
                    (folder / name_of(page)).write_text(text)
                    size += len(text)
            count = HOSTS * shape.pages
            yield Web(nginx, *write_seeds(root, nginx, list(hosts)), pages=count, mean=size // count)


def make_host(folder: Path) -> None:
    folder.mkdir()
    (folder / "robots.txt").write_text(ROBOTS)


def write_seeds(root: Path, nginx: Nginx, hosts: list[str]) -> tuple[Path, Path]:
    urls = [f"{nginx.url_of(host)}/\n" for host in hosts]
    seeds, one_seed = root / "seeds.txt", root / "one_seed.txt"
    seeds.write_text("".join(urls))
    one_seed.write_text(urls[0])
    return seeds, one_seed


def name_of(page: int) -> str:
    return f"page{page}.html" if page else "index.html"


def path_of(page: int) -> str:
    return f"/page{page}.html" if page else "/"


def made_page(host: int, page: int, port: int, chance: random.Random, shape: Shape) -> str:
    own = "".join(
        f'<li><a href="{path_of((page * 3 + link) % shape.pages)}">{chance.choice(WORDS)} {link}</a></li>\n'
        for link in range(shape.own_links)
    )
    others = "".join(
        f'<a href="http://{address(chance.randrange(HOSTS))}:{port}{path_of(chance.randrange(shape.pages))}">'
        f"{chance.choice(WORDS)}</a>\n"
        for _ in range(shape.other_links)
    )
    text = "".join(f"<p>{' '.join(chance.choices(WORDS, k=80))}</p>\n" for _ in range(shape.paragraphs))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Mill {host}, page {page}</title></head>\n'
        f"<body><h1>Page {page} of mill {host}</h1>\n<ul>{own}</ul>\n{text}{others}</body></html>\n"
    )


# --- real pages ---


def sample() -> Path | None:
    """Return the file of real pages, if it is there."""
    path = Path(os.environ.get("WEBMILL_TEST_DATA", "../shared/data")) / SAMPLE
    return path if path.exists() else None


@contextmanager
def real_web(file: Path, *, directives: str = "", listen: str = "", trusted: bool = True) -> Iterator[Web]:
    """TLS with a certificate for all hosts: one that `authority` signed, or nobody."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        hosts = {address(host): root / address(host) for host in range(HOSTS)}
        authority = Authority(root)
        certificate = (authority.issue if trusted else authority.self_signed)(*hosts)
        for folder in hosts.values():
            make_host(folder)
        pages = list(real_pages(file))
        serving = nginx_serving(
            hosts=hosts,
            addresses={host: host for host in hosts},
            directives=f"{GZIP} {directives}",
            certificate=certificate,
            listen=listen,
        )
        with serving as nginx:
            size = write_real_pages(pages, list(hosts.values()), nginx.url_of)
            seeds = write_seeds(root, nginx, list(hosts))
            yield Web(nginx, *seeds, pages=len(pages), mean=size // len(pages), authority=authority.file)


def real_pages(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield URL and HTML of each whole page, first those whose links may be followed: hosts begin with one of them."""
    later = []
    with file.open("rb") as stream:
        for record in ArchiveIterator(stream, record_types=WarcRecordType.response, parse_http=True):
            page, kind = record.reader.read(), record.http_content_type or ""
            if record.http_headers.status_code != 200 or "html" not in kind or b"\0" in page:
                continue
            found = record.headers["WARC-Target-URI"], page
            if b"nofollow" in page:
                later.append(found)
            else:
                yield found
    yield from later


def write_real_pages(pages: list[tuple[str, bytes]], folders: list[Path], url_of: Callable[[str], str]) -> int:
    """Deal the pages out to the hosts, compressed as well as plain. Return their bytes."""
    size, chance = 0, random.Random(1)
    of_host = [len(pages) // HOSTS + (host < len(pages) % HOSTS) for host in range(HOSTS)]
    for number, (url, page) in enumerate(pages):
        host, place = number % HOSTS, number // HOSTS
        others = [chance.randrange(HOSTS) for _ in range(3)]
        links = [f"{url_of(address(host))}{path_of(other)}" for other in range(of_host[host])]
        links += [f"{url_of(address(other))}{path_of(chance.randrange(of_host[other]))}" for other in others]
        whole = with_links(page, url, links)
        file = folders[host] / name_of(place)
        file.write_bytes(whole)
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(whole, 6, mtime=0))
        size += len(whole)
    return size


def with_links(page: bytes, url: str, links: list[str]) -> bytes:
    base = f'<base href="{escape(url)}">'.encode()
    head = HEAD.search(page)
    at = head.end() if head else 0
    page = page[:at] + base + page[at:]
    menu = "".join(f'<a href="{link}">{number}</a>\n' for number, link in enumerate(links)).encode()
    end = BODY_END.search(page)
    at = end.start() if end else len(page)
    return page[:at] + menu + page[at:]
