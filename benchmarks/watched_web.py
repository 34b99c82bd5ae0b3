"""The web that `watching.py` watches: pages on many hosts, some of which change each day, half of them with noise.

    python -m benchmarks.watched_web PORT PAGES HOSTS

Hosts are loopback addresses (127.0.1.1, 127.0.1.2, …). `/` of a host links to its pages. `/day/N` sets the day,
`/requests` tells how many requests there were. Which page changes on which day, and how, follows from its number.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache

CHANGED_A_DAY = 0.01
NUMBERS_OF_ADS = 5
WORDS = [a + b for a in ("ba", "ke", "lo", "mi", "ru", "sta", "ven") for b in ("n", "st", "ra", "ler", "vo", "mint")]


def host_of(page: int, hosts: int) -> str:
    number = page % hosts
    return f"127.0.{1 + number // 250}.{1 + number % 250}"


def url_of(page: int, *, hosts: int, port: int) -> str:
    return f"http://{host_of(page, hosts)}:{port}/page/{page}"


def pages_changed_on(day: int, pages: int) -> list[int]:
    """Return the pages that change on a day; none on the first, which is 0."""
    return random.Random(f"day {day}").sample(range(pages), round(pages * CHANGED_A_DAY)) if day else []


def is_noisy(page: int) -> bool:
    return page % 2 == 1


@lru_cache(maxsize=20_000)
def article(page: int, changes: int) -> str:
    """Return the text of a page after so many changes: a price, a paragraph more, a paragraph in other words."""
    dice = random.Random(f"page {page}")
    paragraphs = [sentence(dice) for _ in range(5)]
    price = 100 + page % 50
    for change in range(changes):
        kind = (page + change) % 3
        other = random.Random(f"page {page}, change {change}")
        if kind == 0:
            price += other.randrange(1, 40)
        elif kind == 1:
            paragraphs.append(sentence(other))
        else:
            paragraphs[other.randrange(5)] = sentence(other)
    told = "".join(f"<p>{one}</p>" for one in paragraphs)
    return f"<h1>Article {page}</h1><p>The price is {price} euros for members.</p>{told}"


def sentence(dice: random.Random) -> str:
    return ". ".join(" ".join(dice.choices(WORDS, k=14)).capitalize() for _ in range(4)) + "."


def noise(dice: random.Random) -> tuple[str, str]:
    """Return what stands above and below an article, different each time: clock, counter, tokens, ads in any order."""
    now = datetime.now(UTC)
    ads = [f"<div class='ad'>Buy {name} today</div>" for name in ("shoes", "lamps", "books", "bikes", "tea")]
    dice.shuffle(ads)
    token, visitor = dice.randbytes(16).hex(), dice.randrange(10_000, 10_000_000)
    above = (
        f"<p class='clock'>{now:%Y-%m-%d %H:%M:%S}</p><form><input type='hidden' name='csrf' value='{token}'></form>"
    )
    below = f"<p>You are visitor number {visitor}</p><p>Updated {dice.randrange(2, 59)} minutes ago</p>{''.join(ads)}"
    return above, below


class WatchedWeb:
    def __init__(self, pages: int, hosts: int) -> None:
        self.pages, self.hosts = pages, hosts
        self.day = self.requests = 0
        self._changes = [0] * pages
        self._dice = random.Random(1)

    def advance(self, day: int) -> None:
        while self.day < day:
            self.day += 1
            for page in pages_changed_on(self.day, self.pages):
                self._changes[page] += 1

    def reply(self, host: str, path: str, etag: str) -> tuple[int, str, bytes]:
        """Return status, etag and body."""
        if path == "/robots.txt":
            return 404, "", b""
        self.requests += 1
        if path == "/":
            links = "".join(f"<li><a href='/page/{page}'>Article {page}</a></li>" for page in self._pages_of(host))
            return self._unless_known(f"<title>Articles</title><ul>{links}</ul>", etag)
        page = int(path.rpartition("/")[2])
        if not is_noisy(page):
            return self._unless_known(frame(page, article(page, self._changes[page])), etag)
        above, below = noise(self._dice)
        return 200, "", frame(page, article(page, self._changes[page]), above=above, below=below).encode()

    def _pages_of(self, host: str) -> Iterator[int]:
        return (page for page in range(self.pages) if host_of(page, self.hosts) == host)

    def _unless_known(self, text: str, etag: str) -> tuple[int, str, bytes]:
        own = f'"{hashlib.md5(text.encode()).hexdigest()}"'
        return (304, own, b"") if etag == own else (200, own, text.encode())


def frame(page: int, text: str, *, above: str = "", below: str = "") -> str:
    menu = "<nav><a href='/'>Home</a></nav>"
    head = f"<head><title>Article {page}</title></head>"
    return f"<!doctype html><html>{head}<body>{menu}{above}<main>{text}</main>{below}</body></html>"


async def answer(web: WatchedWeb, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            first, *lines = head.decode("latin-1").split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            path = first.split(" ")[1]
            status, etag, body = control(web, path) or web.reply(
                fields["host"].partition(":")[0], path, fields.get("if-none-match", "")
            )
            tag = f"ETag: {etag}\r\n" if etag else ""
            writer.write(
                f"HTTP/1.1 {status} X\r\nContent-Type: text/html; charset=utf-8\r\n{tag}"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


def control(web: WatchedWeb, path: str) -> tuple[int, str, bytes] | None:
    if path.startswith("/day/"):
        web.advance(int(path.removeprefix("/day/")))
        return 200, "", b"set"
    if path == "/requests":
        return 200, "", str(web.requests).encode()
    return None


async def main(port: int, pages: int, hosts: int) -> None:
    web = WatchedWeb(pages, hosts)
    server = await asyncio.start_server(lambda reader, writer: answer(web, reader, writer), "0.0.0.0", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:4])))
