"""A crawler's identity: its keys, and the pages by which servers know who asks, what for, and how to be left alone.

    /                                                  a page for people
    /.well-known/http-message-signatures-directory     its public keys (JWKS)
    /.well-known/signature-agent-card                  who it is, for programs
    /addresses.json                                    from where it asks, in the form of large crawlers

They are written to `DIR/www`, for any web server; `serve/bot_site.py` serves them with the keys of the moment.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from webmill import __version__
from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, WebmillError, WrongUse
from webmill.formats.preferences.decision import PURPOSES
from webmill.infra import atomic
from webmill.infra.bot_keys import (
    FILE,
    BotIdentity,
    BotKey,
    key_file,
    load_signer,
    make_key,
    read_identity,
    thumbprint,
    verify,
    write_identity,
)
from webmill.infra.files import os_errors
from webmill.infra.user_agent import user_agent

WWW = "www"
DIRECTORY = "/.well-known/http-message-signatures-directory"
CARD = "/.well-known/signature-agent-card"
ADDRESSES = "/addresses.json"
TYPES = {
    "/": "text/html; charset=utf-8",
    DIRECTORY: "application/http-message-signatures-directory+json",
    CARD: "application/json",
    ADDRESSES: "application/json",
}
WHAT_FOR = {
    "archive": "It archives pages, to keep a record of the public web.",
    "search": "It collects pages to be found by a search engine.",
    "training": "It collects texts with which language models are trained.",
    "research": "It collects pages for research.",
    "monitoring": "It looks at pages again and again, to tell what has changed.",
}
OVERLAP = 3600.0  # seconds for which a key that is replaced still signs on nodes that have not read the new one


def make_bot(folder: Path, identity: BotIdentity, *, now: float) -> BotIdentity:
    """Make a new identity with its first key, which signs at once. Conflict: there is one."""
    if (folder / FILE).exists():
        raise Conflict(f"there is an identity in {folder}: `webmill bot rotate {folder}` gives it a new key")
    check_identity(identity)
    with os_errors(str(folder)):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = msgspec.structs.replace(identity, keys=(make_key(folder, starts=now),))
    write_identity(folder, made)
    write_pages(folder, made, now=now)
    return made


def check_identity(identity: BotIdentity) -> None:
    """Raise WrongUse for what cannot be meant."""
    parts = urlsplit(identity.url)
    if parts.scheme != "https" or not parts.hostname or parts.path or parts.query or not identity.url.isascii():
        raise WrongUse(f"{identity.url!r}: the address of the bot is an https origin, such as https://bot.example")
    if identity.purpose not in PURPOSES:
        raise WrongUse(f"{identity.purpose!r} is no purpose; choose from {', '.join(PURPOSES)}")
    for prefix in identity.prefixes:
        try:
            ip_network(prefix)
        except ValueError as error:
            raise WrongUse(f"{prefix!r} is no address range: {error}") from error


def rotate_key(folder: Path, *, now: float, at_once: bool = False) -> BotIdentity:
    """Give an identity a new key. It signs when servers have had `lead` to learn of it, or at once; the old one ends
    then, and is published for as long again."""
    identity = read_identity(folder)
    starts = now if at_once else now + identity.lead
    old = tuple(ended(key, at=starts) for key in identity.keys if key.is_published(now, lead=identity.lead))
    made = msgspec.structs.replace(identity, keys=(*old, make_key(folder, starts=starts)))
    write_identity(folder, made)
    remove_old_keys(folder, identity, made)
    write_pages(folder, made, now=now)
    return made


def ended(key: BotKey, *, at: float) -> BotKey:
    """Return a key that ends when its successor begins, a little later: nodes read the new one within a minute."""
    return key if key.ends is not None else msgspec.structs.replace(key, ends=at + OVERLAP)


def remove_old_keys(folder: Path, before: BotIdentity, after: BotIdentity) -> None:
    kept = {key.keyid for key in after.keys}
    for key in before.keys:
        if key.keyid not in kept:
            key_file(folder, key.keyid).unlink(missing_ok=True)


# --- pages ---


def write_pages(folder: Path, identity: BotIdentity, *, now: float) -> None:
    """Write what servers and people read."""
    for path in TYPES:
        place = folder / WWW / (path.strip("/") or "index.html")
        atomic.make_folder(place.parent)
        atomic.write_bytes(place, page_of(identity, path, now=now))


def page_of(identity: BotIdentity, path: str, *, now: float) -> bytes:
    """Return the page of a path. NotFound: there is none."""
    if path == DIRECTORY:
        return _json({"keys": [key.jwk for key in identity.published_keys(now)]})
    if path == CARD:
        return _json(agent_card(identity))
    if path == ADDRESSES:
        return _json(address_list(identity, now=now))
    if path == "/":
        return bot_page(identity).encode()
    raise NotFound(f"no page {path}")


def agent_card(identity: BotIdentity) -> dict[str, object]:
    """Return who the crawler is, as draft-meunier-webbotauth-registry names things."""
    return {
        "client_name": identity.name,
        "client_uri": f"{identity.url}/",
        "contacts": [identity.contact] if identity.contact else [],
        "expected-user-agent": user_agent(identity.url, purpose=identity.purpose),
        "rfc9309-product-token": "webmill",
        "rfc9309-compliance": ["User-Agent", "Allow", "Disallow", "Content-Usage"],
        "trigger": "fetcher",
        "purpose": identity.purpose,
        "targeted-content": "text/html",
        "rate-control": "429, Retry-After, Crawl-delay",
        "rate-expectation": "1 request per domain at a time, seconds apart",
        "known-urls": [],
        "keys": f"{identity.url}{DIRECTORY}",
        "addresses": f"{identity.url}{ADDRESSES}",
        "opt-out": identity.opt_out or identity.contact,
    }


def address_list(identity: BotIdentity, *, now: float) -> dict[str, object]:
    """Return the address ranges in the form that large crawlers publish."""
    networks = [ip_network(prefix) for prefix in identity.prefixes]
    return {
        "creationTime": datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%S.000000"),
        "prefixes": [{f"ipv{network.version}Prefix": str(network)} for network in networks],
    }


def bot_page(identity: BotIdentity) -> str:
    """Return the page for people: who asks, what for, and how to be left alone."""
    name, contact = escape(identity.name), escape(identity.contact)
    out = identity.opt_out or identity.contact
    link = escape(f"mailto:{out}" if "@" in out and ":" not in out else out, quote=True)
    about = f"<p>{escape(identity.about)}</p>" if identity.about else ""
    ranges = "".join(f"<li><code>{escape(prefix)}</code></li>" for prefix in identity.prefixes)
    where = f"<h2>From where</h2><ul>{ranges}</ul><p><a href='{ADDRESSES}'>addresses.json</a></p>" if ranges else ""
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>body{{font:1rem/1.6 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem}}</style></head><body>
<h1>{name}</h1><p>{WHAT_FOR[identity.purpose]} Purpose: <strong>{identity.purpose}</strong>.</p>{about}
<h2>How to know it</h2>
<p>It says <code>{escape(user_agent(identity.url, purpose=identity.purpose))}</code>, and signs each request
(<a href="{DIRECTORY}">its keys</a>, <a href="{CARD}">its card</a>). What is not signed is not ours.</p>{where}
<h2>How to be left alone</h2>
<p>In <code>robots.txt</code> (it is fetched at most once a day):</p>
<pre>User-agent: webmill
Disallow: /</pre>
<p>Usage preferences are obeyed as well: <code>Content-Usage</code>, TDM reservations, RSL, <code>noindex</code>,
<code>noarchive</code>, <code>noai</code>.</p>
<p>To have pages removed that were kept already, or never to be asked again: <a href="{link}">{escape(out)}</a>.</p>
<h2>Who</h2><p>{contact}</p><p>Software: webmill {__version__}</p></body></html>
"""


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


# --- check ---


class BotCheck(msgspec.Struct, frozen=True):
    """One thing that was looked at. `problem` is empty where it is right."""

    what: str
    problem: str = ""


def check_bot(folder: Path, *, now: float) -> Iterator[BotCheck]:
    """Yield what was looked at in the folder."""
    try:
        identity = read_identity(folder)
    except Misconfigured as error:
        yield BotCheck("identity", str(error))
        return
    try:
        check_identity(identity)
        yield BotCheck(f"identity of {identity.url}")
    except WrongUse as error:
        yield BotCheck("identity", str(error))
    mode = stat.S_IMODE(folder.stat().st_mode)
    yield BotCheck("folder", f"others can write to {folder}: chmod 700 {folder}" if mode & 0o022 else "")
    signing = identity.signing_key(now)
    yield BotCheck("a key that signs now", "" if signing else f"none: `webmill bot rotate {folder} --at-once`")
    for key in identity.keys:
        yield BotCheck(f"key {key.keyid[:12]}…", key_problem(folder, key))
    for path in TYPES:
        yield BotCheck(f"page {path}", page_problem(folder, identity, path, now=now))


def key_problem(folder: Path, key: BotKey) -> str:
    """Return what is wrong with a private key: it must be the one whose public half is told."""
    if thumbprint(key.public) != key.keyid:
        return "its name is not its thumbprint"
    try:
        signature = load_signer(folder, key.keyid)(b"webmill")
    except WebmillError as error:
        return str(error)
    return "" if verify(key.public, signature, b"webmill") else "the private key is another than the public one"


def page_problem(folder: Path, identity: BotIdentity, path: str, *, now: float) -> str:
    place = folder / WWW / (path.strip("/") or "index.html")
    try:
        data = place.read_bytes()
    except OSError as error:
        return f"{place}: {error.strerror}: `webmill bot pages {folder}` writes it"
    if path == ADDRESSES:  # has the time when it was made
        return ""
    return "" if data == page_of(identity, path, now=now) else f"is not as it should be: `webmill bot pages {folder}`"


def check_directory(data: bytes, identity: BotIdentity, *, now: float) -> str:
    """Return what is wrong with a directory of keys that somebody serves."""
    try:
        keys = msgspec.json.decode(data, type=dict[str, list[dict[str, str]]])["keys"]
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError) as error:
        raise BadInput(f"no directory of keys: {error}", reason="bad_directory") from error
    served = {key.get("x", "") for key in keys}
    lacking = [key.keyid for key in identity.published_keys(now) if key.public not in served]
    return f"it lacks the key {lacking[0]}: serve DIR/www, as `webmill bot pages` writes it" if lacking else ""
