"""`webmill bot`: the identity of a crawler that signs its requests."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from webmill.cli.context import note
from webmill.cli.lazy import LazyGroup
from webmill.cli.text import escape_text
from webmill.errors import BadInput, WrongUse
from webmill.formats.preferences.decision import PURPOSES
from webmill.infra.bot_keys import BotIdentity, read_identity
from webmill.pipeline.bot import DIRECTORY, BotCheck, check_bot, check_directory, make_bot, rotate_key, write_pages

FAILED = 1
MAX_ANSWER = 1 << 20
COMMANDS = {
    "init": ("webmill.cli.bot:init", "Make a key and the pages that say who crawls."),
    "rotate": ("webmill.cli.bot:rotate", "Make a new key, which takes the place of the old one."),
    "pages": ("webmill.cli.bot:pages", "Write the pages anew."),
    "serve": ("webmill.cli.bot:serve", "Serve the pages over HTTP."),
    "check": ("webmill.cli.bot:check", "Check the keys, the pages and what the web server serves."),
}
folder_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog="""\b
Examples:
  webmill bot init ~/bot --url https://bot.example --contact me@example.org
  webmill bot serve ~/bot --port 8090
  webmill bot check ~/bot --online
  webmill crawl news/ https://example.com/ --bot ~/bot""",
)
def bot() -> None:
    """Let servers know who crawls: keys that sign requests, and the pages that say who, why, and how to be left alone.

    DIR is a folder of its own, outside of collections: it holds private keys.
    """


@click.command(epilog="Example: webmill bot init ~/bot --url https://bot.example.org --contact me@example.org")
@folder_argument
@click.option("--url", required=True, help="Where the pages will be: https://bot.example.org")
@click.option("--contact", required=True, help="Your e-mail address or web page.")
@click.option("--name", default="webmill", show_default=True, help="Name of the crawler.")
@click.option("--purpose", type=click.Choice(PURPOSES), default="archive", show_default=True, help="What it is for.")
@click.option("--about", default="", help="A sentence about the crawler, for its page.")
@click.option("--opt-out", default="", help="Address to be left alone.  [default: the contact]")
@click.option("--prefix", "prefixes", multiple=True, metavar="CIDR", help="Addresses it asks from; repeatable.")
def init(
    folder: Path,
    *,
    url: str,
    contact: str,
    name: str,
    purpose: str,
    about: str,
    opt_out: str,
    prefixes: tuple[str, ...],
) -> None:
    """Make an Ed25519 key (readable by you alone), its directory, the card, the page and the list of addresses."""
    if any(
        (parent / "webmill.toml").exists() or (parent / "crawl-data").is_dir() for parent in folder.resolve().parents
    ):
        raise WrongUse(f"{folder} lies in a collection, which is copied, served and given away: keep keys outside")
    identity = BotIdentity(
        url=url.rstrip("/"),
        name=name,
        contact=contact,
        purpose=purpose,
        about=about,
        opt_out=opt_out,
        prefixes=prefixes,
    )
    made = make_bot(folder, identity, now=time.time())
    note(escape_text(f"key {made.keys[0].keyid} in {folder / 'keys'}"))
    note(escape_text(f"serve {folder / 'www'} at {made.url}, or: webmill bot serve {folder}"))
    note(escape_text(f"then: webmill crawl COLLECTION --bot {folder}"))


@click.command(epilog="Example: webmill bot rotate ~/bot")
@folder_argument
@click.option("--at-once", is_flag=True, help="Sign with the new key now: the old one is lost, or others have it.")
def rotate(folder: Path, *, at_once: bool) -> None:
    """Make a new key. It is published now and signs after a day, when servers know it; running crawls follow."""
    made = rotate_key(folder, now=time.time(), at_once=at_once)
    note(escape_text(f"new key {made.keys[-1].keyid}"))


@click.command(epilog="Example: webmill bot pages ~/bot")
@folder_argument
def pages(folder: Path) -> None:
    """Write the pages in DIR/www anew: with the keys of now, and what bot.json says."""
    write_pages(folder, read_identity(folder), now=time.time())


@click.command(epilog="Example: webmill bot serve ~/bot --host 127.0.0.1 --port 8090")
@folder_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8090,
    show_default=True,
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port to listen on.",
)
def serve(folder: Path, *, host: str, port: int) -> None:
    """Serve the pages, with the directory of keys signed. Put a web server with TLS before it."""
    import uvicorn

    from webmill.serve.bot_site import make_bot_site

    read_identity(folder)
    app = make_bot_site(folder, clock=time.time)
    note(f"http://{host}:{port}/")
    uvicorn.run(
        app, host=host, port=port, log_level="warning", limit_concurrency=200, timeout_keep_alive=5, access_log=False
    )


@click.command(epilog="Example: webmill bot check ~/bot --online")
@folder_argument
@click.option("--online", is_flag=True, help="Also fetch the directory of keys from the bot's address.")
@click.option("--at", default="", metavar="URL", help="With --online: ask this server instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def check(folder: Path, *, online: bool, at: str, as_json: bool) -> None:
    """Check that the keys are private and whole, and that the pages are those of the keys. Exit code 1: not so."""
    now = time.time()
    found = [*check_bot(folder, now=now), *(check_online(folder, at, now=now) if online else ())]
    if as_json:
        click.echo(msgspec.json.encode(found))
    else:
        for one in found:
            click.echo(escape_text(f"{'ok  ' if not one.problem else 'FAIL'}  {one.what}  {one.problem}".rstrip()))
    if any(one.problem for one in found):
        raise click.exceptions.Exit(FAILED)


def check_online(folder: Path, at: str, *, now: float) -> Iterator[BotCheck]:
    identity = read_identity(folder)
    address = (at or identity.url).rstrip("/") + DIRECTORY
    if not address.startswith(("https://", "http://")):
        raise WrongUse(f"{address}: give an address that begins with https://")
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:  # noqa: S310 - the scheme was looked at
            problem = check_directory(answer.read(MAX_ANSWER), identity, now=now)
    except (urllib.error.URLError, OSError, BadInput) as error:
        problem = str(error)
    yield BotCheck(address, problem)
