"""Index keys: our SURT beside the `surt` package, which pywb calls for every record."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable

from benchmarks.frame import race
from webmill.formats.url.surt import surt as ours

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it has invalid escapes in its source
    from surt import surt as theirs

WORDS = ["news", "shop", "article", "index", "about", "image", "search", "wiki", "Thread", "tag", "user", "archive"]
HOSTS = ["www.example.com", "blog.example.org", "www.example.co.uk", "example.net", "a.b.example.com"]
ENDS = ["", "", "/", ".html", "?id=12&b=3", "?q=a%20b", "-%C3%A9t%C3%A9", "#top"]
ODD_ENDS = ["%2Fb", "/../c", "//d", "?sid=0123456789abcdef0123456789abcdef&a=1"]


def page_urls(count: int) -> list[str]:
    """Like the links of real pages: about one in fifteen needs more than the fast path."""
    dice = random.Random(1)
    return [one_url(dice) for _ in range(count)]


def one_url(dice: random.Random) -> str:
    path = "".join(f"/{dice.choice(WORDS)}-{dice.randrange(10**5)}" for _ in range(dice.randrange(1, 5)))
    end = dice.choice(ODD_ENDS if dice.random() < 0.07 else ENDS)
    return f"https://{dice.choice(HOSTS)}{path}{end}"


def main() -> None:
    urls = page_urls(50_000)
    assert [ours(url) for url in urls] == [theirs(url) for url in urls]
    race("SURT keys", {"webmill": over(ours, urls), "surt": over(theirs, urls)}, unit="URLs")


def over(function: Callable[[str], str], urls: list[str]) -> Callable[[], int]:
    def run() -> int:
        return sum(1 for url in urls if function(url))

    return run


if __name__ == "__main__":
    main()
