"""Settings: webmill.toml, then WEBMILL_* variables, then flags; decoded once, strictly, and passed on as values.

A setting `key` of section `[section]` is the variable WEBMILL_SECTION_KEY. An unknown name or a wrong type is refused
with the file, the line and what would be right.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import msgspec

from webmill.errors import Misconfigured

FILE_NAME = "webmill.toml"


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["text", "json"] = "text"


class Queue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`sqlite:FILE` (in the collection when relative), `amqp://…`, or `memory:`."""

    url: str = "sqlite:queue.sqlite"
    attempts: int = 5
    lease: float = 60.0


class Executor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`pool` (processes on this machine), `inline`, `ray:auto`, or `ray://HOST:PORT`."""

    url: str = "pool"
    jobs: int = 0  # 0: one per core


class Http(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who we say we are when we ask other people's servers."""

    contact: str = ""
    timeout: float = 60.0


class CommonCrawl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose crawls `webmill cc` reads, and how fast this machine asks for them, all its processes together."""

    base_url: str = "https://data.commoncrawl.org"
    rate: float = 5.0  # requests a second; 0: no limit, for a server of your own


class Serve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where `webmill serve` listens, for whom, and what one client may cost. Lists are separated by commas."""

    host: str = "127.0.0.1"
    port: int = 8080
    replay_port: int = 0  # archived pages get an origin of their own; 0: the port after `port`
    address: str = ""  # the origin that clients see, when a proxy is in front: https://archive.example.org
    replay_address: str = ""
    processes: int = 1
    hosts: str = ""  # names that clients may call us by, besides the address
    origins: str = ""  # sites whose scripts may read (CORS), or *
    proxies: str = ""  # addresses whose X-Forwarded-For is believed
    rate: float = 50.0  # requests a second of one client; 0: no limit
    certificate: str = ""  # PEM files, for https
    key: str = ""
    token: str = ""  # bearer of control requests


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    log: Log = Log()
    queue: Queue = Queue()
    executor: Executor = Executor()
    http: Http = Http()
    commoncrawl: CommonCrawl = CommonCrawl()
    serve: Serve = Serve()


SECTIONS: dict[str, type[msgspec.Struct]] = {field.name: field.type for field in msgspec.structs.fields(Settings)}


def load(
    path: Path | None, *, collection: Path | None, environment: Mapping[str, str], flags: Mapping[str, str]
) -> Settings:
    """`path` must exist; else the collection's or this folder's webmill.toml is taken when there is one."""
    file = path or next(
        (folder / FILE_NAME for folder in (collection, Path()) if folder and (folder / FILE_NAME).is_file()), None
    )
    table, text = read_toml(file) if file else ({}, "")
    for section, key, value in [*from_environment(environment), *(flag_name(*item) for item in flags.items())]:
        table.setdefault(section, {})[key] = value
    try:
        return msgspec.convert(table, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise Misconfigured(explain(error, text=text, file=file)) from None


def read_toml(file: Path) -> tuple[dict[str, dict[str, object]], str]:
    try:
        text = file.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except FileNotFoundError:
        raise Misconfigured(f"no settings file {file}: create it, or leave --config out to use the defaults") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
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
    names = [f"WEBMILL_{section}_{key}".upper() for section, kind in SECTIONS.items() for key in kind.__struct_fields__]
    near = get_close_matches(wrong, names, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"


def flag_name(name: str, value: str) -> tuple[str, str, str]:
    section, _, key = name.partition(".")
    return section, key, value


def explain(error: msgspec.ValidationError, *, text: str, file: Path | None) -> str:
    """msgspec names the place by path; people want the file and the line."""
    message = str(error)
    path = re.search(r" - at `\$\.?([\w.]*)`", message)
    unknown = re.search(r"unknown field `(\w+)`", message)
    keys = [key for key in (path[1].split(".") if path else []) if key] + ([unknown[1]] if unknown else [])
    line = line_of(keys, text)
    where = f"{file}:{line}" if line else "setting " + ".".join(keys)
    if unknown:
        section = keys[0] if len(keys) > 1 else None
        names = SECTIONS[section].__struct_fields__ if section in SECTIONS else tuple(SECTIONS)
        near = get_close_matches(unknown[1], names, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(names)}"
        return f"{where}: unknown setting `{'.'.join(keys)}`: {hint}"
    return f"{where}: {message.split(' - at ', maxsplit=1)[0]}"


def line_of(keys: list[str], text: str) -> int | None:
    """The line of a key inside its section; a scan is enough for the flat files we accept."""
    section, wanted = (keys[0], keys[1]) if len(keys) > 1 else (None, keys[0] if keys else "")
    inside = section is None
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\s*([\w.]+)\s*\]", line)
        if header:
            inside = header[1] == section
            if section is None and header[1] == wanted:
                return number
        elif inside and re.match(rf"\s*{re.escape(wanted)}\s*=", line):
            return number
    return None
