"""A page of `webmill serve` and a command of its own: the hosts of a collection by their documents. Also a filter."""

from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import click
import pyarrow.compute as pc
from markupsafe import Markup

import webmill
from webmill import PluginPage, hookimpl


def count_hosts(root):
    return Counter(urlsplit(document.url).hostname for document in webmill.documents(root))


def show(root, query):  # noqa: ARG001  a page may have a form, whose fields these are
    rows = (Markup("<tr><td>{}</td><td>{}</td></tr>").format(*row) for row in count_hosts(root).most_common(50))
    return Markup("<table class='data'><tr><th>Host</th><th>Documents</th></tr>{}</table>").format(Markup().join(rows))


@click.command()
@click.argument("root", type=click.Path(exists=True, path_type=Path))
def hosts(root):
    """Count the documents of each host."""
    for host, count in count_hosts(root).most_common():
        click.echo(f"{count}\t{host}")


def secure(batch):
    return pc.starts_with(batch["url"], "https:")


@hookimpl
def register_pages():
    return [PluginPage(path="hosts", title="Hosts", show=show)]


@hookimpl
def register_commands():
    return [hosts]


@hookimpl
def curate_filter():
    return {"secure": secure}
