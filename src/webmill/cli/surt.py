"""`webmill surt`: URLs in, index keys out."""

from __future__ import annotations

import sys

import click

from webmill.formats.url.surt import surt as key_of_url


@click.command(
    epilog="""\b
Examples:
  webmill surt https://www.example.com/a?b=2
  zcat urls.gz | webmill surt | sort -u"""
)
@click.argument("urls", nargs=-1, metavar="[URL]…")
def surt(*, urls: tuple[str, ...]) -> None:
    """Print the index key (SURT) of each URL, in the form that pywb and Common Crawl use.

    Without arguments, URLs are read from stdin, one per line.
    """
    lines = urls or (line.rstrip(b"\r\n").decode("utf-8", "surrogateescape") for line in sys.stdin.buffer)
    for url in lines:
        click.echo(key_of_url(url))
