"""The settings of the servers: sections [serve] and [mcp]."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from webmill.settings.declaration import setting
from webmill.settings.value_formats import TextList


class ServeSettings(msgspec.Struct, frozen=True):
    """Where `webmill serve` listens, which clients it serves, and how many requests each may send."""

    host: Annotated[str, setting("Address to listen on.", reach="other")] = "127.0.0.1"
    port: Annotated[int, setting("Port to listen on; 0 picks a free port.", reach="inside", least=0, most=65535)] = 8080
    replay_port: Annotated[
        int,
        setting(
            "Port for archived pages, which are served from an origin of their own.",
            reach="inside",
            least=0,
            most=65535,
            none="the port after --port",
        ),
    ] = 0
    address: Annotated[
        str, setting("URL that clients use for this server, when it is behind a proxy.", reach="other", metavar="URL")
    ] = ""
    replay_address: Annotated[
        str,
        setting("URL that clients use for archived pages; must be a different origin.", reach="other", metavar="URL"),
    ] = ""
    replay_zone: Annotated[
        str,
        setting(
            "URL below which each archived site gets a host name of its own, https://replay.example.org: "
            'needs wildcard DNS and a wildcard certificate; "none" turns it off.',
            reach="other",
            metavar="URL",
            none="replay.localhost, when only this machine is served",
        ),
    ] = ""
    processes: Annotated[
        int | None, setting("Number of server processes.", reach="inside", least=1, none="one per core, at most 4")
    ] = None
    hosts: Annotated[
        TextList,
        setting(
            "Host name that clients may use for this server; repeatable.",
            reach="other",
            option="allow-host",
            metavar="NAME",
        ),
    ] = ()
    origins: Annotated[
        TextList,
        setting(
            "Origin whose scripts may read responses (CORS), or * for all; repeatable.",
            reach="other",
            option="origin",
            metavar="URL",
        ),
    ] = ()
    proxies: Annotated[
        TextList,
        setting(
            "Address of a proxy whose X-Forwarded-For is trusted; repeatable.",
            reach="other",
            option="proxy",
            metavar="ADDRESS",
        ),
    ] = ()
    rate: Annotated[
        float, setting("Maximum requests per second from one client; 0 means no limit.", reach="other", least=0)
    ] = 50.0
    certificate: Annotated[
        str, setting("TLS certificate (PEM file); enables https.", reach="other", metavar="FILE")
    ] = ""
    key: Annotated[
        str,
        setting(
            "Private key (PEM file), if it is not in the certificate file.", reach="other", metavar="FILE", secret=True
        ),
    ] = ""
    token: Annotated[
        str,
        setting(
            "Bearer token that a request must send to change anything.", reach="inside", metavar="SECRET", secret=True
        ),
    ] = ""
    noarchive: Annotated[
        Literal["others", "everyone", "nobody"],
        setting(
            "Who is not shown copies whose site forbids it: others, if they can reach this server.",
            reach="other",
            only="file",
        ),
    ] = "others"
    tombstones: Annotated[
        bool,
        setting("Tell people who ask for a page that was taken down when and why.", reach="inside", only="file"),
    ] = True
    access_log: Annotated[
        str, setting("Write one JSON line per request to this file; - is stderr.", reach="other", metavar="FILE")
    ] = ""


class McpSettings(msgspec.Struct, frozen=True):
    """Where `webmill mcp --http` listens for agents, and how many requests each may send."""

    host: Annotated[str, setting("Address to listen on, with --http.", reach="other")] = "127.0.0.1"
    port: Annotated[
        int, setting("Port to listen on, with --http; 0 picks a free port.", reach="inside", least=0, most=65535)
    ] = 8090
    hosts: Annotated[
        TextList,
        setting(
            "Host name that agents may use for this server; repeatable.",
            reach="other",
            option="allow-host",
            metavar="NAME",
        ),
    ] = ()
    rate: Annotated[
        float, setting("Maximum requests per second from one agent; 0 means no limit.", reach="other", least=0)
    ] = 50.0
    token: Annotated[
        str, setting("Bearer token that every request must send.", reach="inside", metavar="SECRET", secret=True)
    ] = ""
