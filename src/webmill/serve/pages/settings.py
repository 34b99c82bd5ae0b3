"""/settings: every setting as it is, what it means, and where it is set."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.serve.pages.render import render
from webmill.serve.site import Site

SECTIONS = {
    "log": "How webmill speaks of what it does.",
    "queue": "Where work waits that many processes share.",
    "executor": "Who does work that can be divided.",
    "http": "Who we say we are when we ask other people's servers.",
    "commoncrawl": "Whose crawls `webmill cc` reads, and how fast.",
    "serve": "Where this server listens, for whom, and what one client may cost.",
}
MEANINGS = {
    "log.format": "How log lines look on stderr: text or json.",
    "queue.url": "sqlite:FILE (in the collection when relative), amqp://…, sqs://…, or memory:",
    "queue.attempts": "How often a task is handed out before it is put aside with its reason.",
    "queue.lease": "Seconds a worker has a task until it is handed to another.",
    "executor.url": "pool (processes on this machine), inline, ray:auto, or ray://HOST:PORT",
    "executor.jobs": "Processes at once; 0 is one per core.",
    "http.contact": "An e-mail or a page: every server that is asked is told whom to ask.",
    "http.timeout": "Seconds for one request, all together.",
    "commoncrawl.base_url": "Where crawls are: https://…, s3://…, or another webmill.",
    "commoncrawl.rate": "Requests a second of all processes of this machine; 0 is no limit.",
    "serve.host": "The address that is listened on. 127.0.0.1 is this machine alone.",
    "serve.port": "Its port.",
    "serve.replay_port": "Archived pages get an origin of their own; 0 is the port after it.",
    "serve.address": "The origin that clients see, when a proxy is in front.",
    "serve.replay_address": "The same for archived pages.",
    "serve.processes": "How many processes answer.",
    "serve.hosts": "Names that clients may call us by, besides the address.",
    "serve.origins": "Sites whose scripts may read (CORS), or *.",
    "serve.proxies": "Addresses whose X-Forwarded-For is believed.",
    "serve.rate": "Requests a second of one client; 0 is no limit.",
    "serve.certificate": "A PEM file, for https.",
    "serve.key": "Its key.",
    "serve.token": "What control requests of programs must bear.",
}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    value: str
    meaning: str
    variable: str


class Section(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    meaning: str
    settings: list[Setting]


def routes(site: Site) -> list[BaseRoute]:
    def settings(request: Request) -> Response:
        return render(
            site,
            request,
            "settings.html",
            sections=[section_of(name, values) for name, values in site.settings.items()],
            has_file=(site.root / "webmill.toml").is_file(),
        )

    return [Route("/settings", settings)]


def section_of(name: str, values: Mapping[str, str]) -> Section:
    settings = [
        Setting(
            key=key,
            value=value,
            meaning=MEANINGS.get(f"{name}.{key}", ""),
            variable=f"WEBMILL_{name}_{key}".upper(),
        )
        for key, value in values.items()
    ]
    return Section(name=name, meaning=SECTIONS.get(name, ""), settings=settings)
