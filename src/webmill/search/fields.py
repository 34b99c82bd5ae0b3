"""What all engines find documents by: which words a text has, which sites an address."""

from __future__ import annotations

from functools import cache
from urllib.parse import urlsplit

import tantivy

from webmill.search.words import normalised, without_runs

LONGEST_WORD = 80


@cache
def words() -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(tantivy.Filter.remove_long(LONGEST_WORD)).filter(tantivy.Filter.lowercase())
    return builder.filter(tantivy.Filter.ascii_fold()).build()


def cut(text: str) -> list[str]:
    """The words of a text in their order; a run of paired characters is a hole among them."""
    return [*words().analyze(without_runs(normalised(text)))]


def host_of(text: str) -> str:
    """Of a URL, or of what was typed for one; empty when it has none."""
    text = text.removeprefix("*.")
    try:
        return (urlsplit(text if "://" in text else f"//{text}").hostname or "").strip(".")
    except ValueError:
        return ""


def sites_of(host: str) -> list[str]:
    """`www.news.example.org`, `news.example.org`, `example.org`: what `site:` may say."""
    labels = host.split(".")
    if ":" in host or labels[-1].isdigit():
        return [host]
    return [".".join(labels[at:]) for at in range(max(1, len(labels) - 1))] if host else []
