"""Settings: webmill.toml, then WEBMILL_* variables, then flags; decoded once, strictly, and passed on as values.

A setting `key` of section `[section]` is the variable WEBMILL_SECTION_KEY. An unknown name or a wrong type is refused
with the file, the line and what would be right.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from webmill.errors import Misconfigured

FILE_NAME = "webmill.toml"


def _is(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description)


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How log lines on stderr look."""

    format: Annotated[Literal["text", "json"], _is("text, or json for a collector of logs")] = "text"


class Http(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who we say we are when we ask other people's servers."""

    contact: Annotated[str, _is("your e-mail or page: every server is told whom to ask")] = ""
    timeout: Annotated[float, _is("seconds for one answer")] = 60.0


class Crawl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `webmill run` crawls."""

    seeds: Annotated[str, _is("a file in the collection: URLs or domains, one per line")] = "seeds.txt"
    scope: Annotated[Literal["host", "domain", "path", "any"], _is("how far from the seeds links are followed")] = (
        "host"
    )
    delay: Annotated[str, _is("between two requests to a domain")] = "70s"
    max_pages: Annotated[int, _is("in the whole crawl; 0: no limit")] = 0
    max_time: Annotated[str, _is("of one run: 20m, 8h; empty: until all is visited (with refresh: 1h)")] = ""
    refresh: Annotated[bool, _is("visit pages again, more often those that change")] = False
    requisites: Annotated[bool, _is("fetch what pages need to be seen, too: pictures, styles, scripts, fonts")] = False
    flags: Annotated[str, _is("more flags of `webmill crawl`, as you would type them")] = ""


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `webmill run` does, in this order."""

    stages: Annotated[str, _is("of crawl, index, extract, publish, search")] = "crawl, index, extract, publish, search"
    facets: Annotated[str, _is("what versions are indexed by: language, domain")] = "language"


class Queue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where work waits for workers."""

    url: Annotated[str, _is("sqlite:FILE (in the collection when relative), amqp://…, sqs://NAME.fifo or memory:")] = (
        "sqlite:queue.sqlite"
    )
    attempts: Annotated[int, _is("of a job before it is buried")] = 5
    lease: Annotated[float, _is("seconds until a job of a worker that is silent is given to another")] = 60.0


class Executor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What runs tasks in parallel."""

    url: Annotated[str, _is("pool (processes on this machine), inline, ray:auto or ray://HOST:PORT")] = "pool"
    jobs: Annotated[int, _is("at once; 0: one per core")] = 0


class CommonCrawl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose crawls `webmill cc` reads, and how fast this machine asks for them, all its processes together."""

    base_url: Annotated[str, _is("an address, s3://…, a folder, or another webmill")] = "https://data.commoncrawl.org"
    rate: Annotated[float, _is("requests a second; 0: no limit, for a server of your own")] = 5.0


class Search(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the index is that `webmill search`, `publish`, `run` and `serve` use."""

    url: Annotated[str, _is("a folder, meilisearch://… or opensearch://…; empty: search/ in the collection")] = ""


class Serve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where `webmill serve` listens, for whom, and what one client may cost. Lists are separated by commas."""

    host: Annotated[str, _is("address to listen on")] = "127.0.0.1"
    port: Annotated[int, _is("port to listen on")] = 8080
    replay_port: Annotated[int, _is("archived pages get an origin of their own; 0: the port after `port`")] = 0
    address: Annotated[str, _is("the origin that clients see, behind a proxy: https://archive.example.org")] = ""
    replay_address: Annotated[str, _is("the same for archived pages: another name, never the same")] = ""
    processes: Annotated[int, _is("that answer")] = 1
    hosts: Annotated[str, _is("names that clients may call us by, besides the address")] = ""
    origins: Annotated[str, _is("sites whose scripts may read (CORS), or *")] = ""
    proxies: Annotated[str, _is("addresses whose X-Forwarded-For is believed")] = ""
    rate: Annotated[float, _is("requests a second of one client; 0: no limit")] = 50.0
    certificate: Annotated[str, _is("PEM file, for https")] = ""
    key: Annotated[str, _is("PEM file of its private key")] = ""
    token: Annotated[str, _is("what control requests must bear; empty: those of our own pages only")] = ""
    access_log: Annotated[str, _is("file for one JSON line a request; -: stderr")] = ""


class Metrics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where commands with a metrics port answer Prometheus."""

    host: Annotated[str, _is("address to listen on; in a container 0.0.0.0")] = "127.0.0.1"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    http: Http = Http()
    crawl: Crawl = Crawl()
    run: Run = Run()
    search: Search = Search()
    serve: Serve = Serve()
    queue: Queue = Queue()
    executor: Executor = Executor()
    commoncrawl: CommonCrawl = CommonCrawl()
    metrics: Metrics = Metrics()
    log: Log = Log()


class Setting(msgspec.Struct, frozen=True):
    """One of them, for people."""

    section: str
    key: str
    default: object
    description: str

    @property
    def variable(self) -> str:
        return f"WEBMILL_{self.section}_{self.key}".upper()


def every_setting() -> Iterator[Setting]:
    """In the order of the file; what a section is about is the docstring of its class in `SECTIONS`."""
    for section, kind in SECTIONS.items():
        for field in msgspec.structs.fields(kind):
            described = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"][field.encode_name]
            yield Setting(section, field.name, field.default, described.get("description", ""))


SECTIONS: dict[str, type[msgspec.Struct]] = {field.name: field.type for field in msgspec.structs.fields(Settings)}


def load(
    path: Path | None, *, collection: Path | None, environment: Mapping[str, str], flags: Mapping[str, str]
) -> Settings:
    """`path` must exist; else the collection's or this folder's webmill.toml is taken when there is one."""
    file = path or next(
        (folder / FILE_NAME for folder in (collection, Path()) if folder and (folder / FILE_NAME).is_file()), None
    )
    table, text = read_toml(file) if file else ({}, "")
    places: dict[tuple[str, ...], str] = {}  # of what does not come from the file
    for section, key, value in from_environment(environment):
        table.setdefault(section, {})[key] = value
        places[section, key] = f"WEBMILL_{section}_{key}".upper()
    for section, key, value in (flag_name(*item) for item in flags.items()):
        table.setdefault(section, {})[key] = value
        places[section, key] = f"--{section}-{key}".replace("_", "-")
    try:
        return msgspec.convert(table, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise Misconfigured(explain(error, text=text, file=file, places=places)) from None


def read_toml(file: Path) -> tuple[dict[str, dict[str, object]], str]:
    try:
        text = file.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except FileNotFoundError:
        raise Misconfigured(f"no settings file {file}: create it, or leave --config out to use the defaults") from None
    except (ValueError, RecursionError) as error:  # also a number of 5,000 digits, and lists in lists in lists
        raise Misconfigured(f"{file}: not valid TOML: {error}") from None
    for name, section in table.items():
        if name in SECTIONS and not isinstance(section, dict):
            raise Misconfigured(f"{file}: `{name}` is a section: write [{name}] on a line of its own")
    return table, text


def from_environment(environment: Mapping[str, str]) -> list[tuple[str, str, str]]:
    found = []
    for variable, value in environment.items():
        if variable.startswith("WEBMILL_") and not variable.startswith("WEBMILL_TEST_"):
            section, _, key = variable.removeprefix("WEBMILL_").lower().partition("_")
            if section not in SECTIONS or key not in SECTIONS[section].__struct_fields__:
                raise Misconfigured(f"unknown variable {variable}: {known_variables(variable)}")
            found.append((section, key, value))
    return found


def known_variables(wrong: str) -> str:
    names = [setting.variable for setting in every_setting()]
    near = get_close_matches(wrong, names, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"


def flag_name(name: str, value: str) -> tuple[str, str, str]:
    section, _, key = name.partition(".")
    return section, key, value


def explain(
    error: msgspec.ValidationError, *, text: str, file: Path | None, places: Mapping[tuple[str, ...], str]
) -> str:
    """msgspec names the place by path; people want the file and the line."""
    message = str(error)
    path = re.search(r" - at `\$\.?([\w.]*)`", message)
    unknown = re.search(r"unknown field `(.*?)`(?: - at `\$[\w.]*`)?\Z", message, re.DOTALL)  # any text
    keys = [key for key in (path[1].split(".") if path else []) if key] + ([unknown[1]] if unknown else [])
    line = line_of(keys, text)
    where = places.get(tuple(keys)) or (f"{file}:{line}" if line else "setting " + ".".join(keys))
    if unknown:
        section = keys[0] if len(keys) > 1 else None
        names = SECTIONS[section].__struct_fields__ if section in SECTIONS else tuple(SECTIONS)
        near = get_close_matches(unknown[1], names, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(names)}"
        return f"{where}: unknown setting `{'.'.join(keys)}`: {hint}"
    return f"{where}: `{'.'.join(keys)}`: {message.split(' - at ', maxsplit=1)[0]}{choices(keys)}"


def choices(keys: list[str]) -> str:
    """Of a setting that takes one of a few words."""
    kind = SECTIONS.get(keys[0]) if len(keys) > 1 else None
    fields = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"] if kind else {}
    words = fields[keys[-1]].get("enum", ()) if keys and keys[-1] in fields else ()
    return f": write {', '.join(words)}" if words else ""


def line_of(keys: list[str], text: str) -> int | None:
    """The line of a key inside its section; a scan is enough for the flat files we accept."""
    section, wanted = (keys[0], keys[1]) if len(keys) > 1 else (None, keys[0] if keys else "")
    inside = section is None
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\s*([\w.-]+)\s*\]", line)
        if header:
            inside = header[1] == section
            if section is None and header[1] == wanted:
                return number
        elif inside and re.match(rf"\s*{re.escape(wanted)}\s*=", line):
            return number
    return None
