"""Reads settings from webmill.toml, then WEBMILL_* variables, then flags; the later wins.

They are read once and strictly: an unknown name or a wrong value is an error that names the file, the line and what
would be right. This is the only place where a settings file is read. A setting that reaches out of the folder of its
file counts only if the user trusts that folder (docs/design/trust.md), or overrides it.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec

from webmill.errors import Misconfigured
from webmill.settings.declaration import Setting, read_declarations
from webmill.settings.reach import describe_reach
from webmill.settings.sections import TABLES, Settings
from webmill.settings.tables import TableError

FILE_NAME = "webmill.toml"
MOVED = {("run", "facets"): ("publish", "facets")}
RENAMED = "{where}: [{section}] {old} was renamed to {new}: please change it"
UNTRUSTED = (
    "{where}: [{section}] {key} = {value} {does}, and you have not said that you trust {folder}. If it is yours, run "
    "`webmill trust {quoted}`; or give this setting yourself, as {instead}"
)
# The tests', and those that infra/trusted_folders.py and infra/plugins/sources.py read
NOT_SETTINGS = ("WEBMILL_TEST_", "WEBMILL_TRUST", "WEBMILL_PLUGINS")
FLAGS = "{where}: [crawl] flags is out of use; write {lines} instead"

Values = Mapping[tuple[str, str], Any]  # (section, key) -> parsed value
IsTrusted = Callable[[Path], bool]  # whether the user trusts the settings in a folder

SECTIONS: dict[str, type[msgspec.Struct]] = {field.name: field.type for field in msgspec.structs.fields(Settings)}


@cache
def all_settings() -> tuple[Setting, ...]:
    """Return all settings, including those for the command line only, in the order of the file."""
    return tuple(one for section, kind in SECTIONS.items() for one in read_declarations(section, kind))


def file_settings() -> tuple[Setting, ...]:
    """Return the settings that a settings file can have, in its order."""
    return tuple(one for one in all_settings() if one.declared.only != "command")


def select_settings(names: Iterable[str]) -> tuple[Setting, ...]:
    """Return the settings of sections (`crawl`) and single ones (`http.contact`) that have an option."""
    wanted = tuple(names)
    return tuple(
        one
        for name in wanted
        for one in all_settings()
        if one.declared.only != "file" and name in (one.section, f"{one.section}.{one.key}")
    )


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """The values of settings by where they come from. `notices` name settings that were renamed. `is_trusted` is
    whether the user trusts the collection. `reread` reads the file again, which may have been edited."""

    file: Values = {}
    environment: Values = {}
    flags: Values = {}
    notices: tuple[str, ...] = ()
    is_trusted: bool = False
    reread: Callable[[], Values] | None = None

    def settings(self) -> Settings:
        return build_settings(self.file, self.environment, self.flags)

    def refreshed(self) -> Sources:
        """Return the sources with what the file says now. Misconfigured: it is wrong, or not trusted."""
        return msgspec.structs.replace(self, file=self.reread()) if self.reread else self


def build_settings(*layers: Values) -> Settings:
    """Return the settings of several layers; later layers win."""
    sections: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for (section, key), value in layer.items():
            sections.setdefault(section, {})[key] = value
    made: dict[str, Any] = {name: SECTIONS[name](**values) for name, values in sections.items()}
    return Settings(**made)


def load_settings(
    path: Path | None,
    *,
    collection: Path | None,
    environment: Mapping[str, str],
    is_trusted: IsTrusted,
    flags: Mapping[str, str] | None = None,
) -> Settings:
    """Return all settings; `flags` maps `section.key` to a value."""
    given = {_split_name(name): value for name, value in (flags or {}).items()}
    sources = read_sources(path, collection=collection, environment=environment, is_trusted=is_trusted, flags=given)
    return sources.settings()


def read_sources(
    path: Path | None,
    *,
    collection: Path | None,
    environment: Mapping[str, str],
    is_trusted: IsTrusted,
    flags: Values | None = None,
) -> Sources:
    """Read the file at `path`, which must exist, else webmill.toml of the collection or of this folder, if any.

    Who names the file at `path` means what it says; the others count as far as `is_trusted` says.
    """
    folders = (folder for folder in (collection, Path()) if folder)
    file = path or next((folder / FILE_NAME for folder in folders if (folder / FILE_NAME).is_file()), None)
    notices: list[str] = []
    sources = Sources(
        file=dict(_read_file(file, notices)) if file else {},
        environment=dict(_read_environment(environment, notices)),
        flags={
            name: _parse(_find_setting(*name), value, where=_find_setting(*name).name)
            for name, value in (flags or {}).items()
        },
        notices=tuple(notices),
        is_trusted=collection is not None and is_trusted(collection),
        reread=lambda: (
            read_sources(path, collection=collection, environment=environment, is_trusted=is_trusted, flags=flags).file
        ),
    )
    if file and not path and not is_trusted(file.parent.resolve()):
        refuse_untrusted(sources.file, sources, folder=file.parent.resolve(), where=partial(_locate_setting, file))
    return sources


def refuse_untrusted(values: Values, sources: Sources, *, folder: Path, where: Callable[[Setting], str]) -> None:
    """Raise Misconfigured if a value that was found in `folder` reaches out of it.

    Not if the environment or the flags of `sources` replace it: then it does not count. `where` names its place.
    """
    for one, value in outside_values(values, folder=folder):
        if (one.section, one.key) in {**sources.environment, **sources.flags}:
            continue
        sentence = UNTRUSTED.format(
            where=where(one),
            section=one.section,
            key=one.key,
            value=one.shown(value),
            does=describe_reach(one.declared.reach),
            folder=folder,
            quoted=shlex.quote(str(folder)),
            instead=one.variable if one.declared.only == "file" else f"{one.flag} or {one.variable}",
        )
        raise Misconfigured(sentence)


def outside_values(values: Values, *, folder: Path) -> list[tuple[Setting, Any]]:
    """Return the settings among `values` that reach out of `folder`, with their values."""
    named = [(_find_setting(*name), value) for name, value in values.items()]
    return [(one, value) for one, value in named if one.reaches_outside(value, folder=folder)]


def read_file_values(file: Path) -> dict[tuple[str, str], Any]:
    """Return the values of a settings file, trusted or not."""
    return dict(_read_file(file, []))


def _locate_setting(file: Path, one: Setting) -> str:
    text = read_toml(file)[1]
    line = next((found for key in one.keys if (found := line_of(text, one.section, key))), None)
    line = line or next((line_of(text, name) for name, of in TABLES.items() if of == (one.section, one.key)), None)
    return f"{file}:{line or line_of(text, 'crawl', 'flags') or 1}"


def _split_name(name: str) -> tuple[str, str]:
    section, _, key = name.partition(".")
    return section, key


def _find_setting(section: str, key: str) -> Setting:
    return next(one for one in all_settings() if (one.section, one.key) == (section, key))


def _read_environment(environment: Mapping[str, str], notices: list[str]) -> Iterator[tuple[tuple[str, str], Any]]:
    known = {one.variable: one for one in file_settings()}
    for variable, written in environment.items():
        if not variable.startswith("WEBMILL_") or variable.startswith(NOT_SETTINGS):
            continue
        if variable == "WEBMILL_CRAWL_FLAGS":
            yield from _read_line("crawl", "flags", written, where=variable, notices=notices)
            continue
        if variable not in known:
            hint = _did_you_mean(variable, known)
            raise Misconfigured(f"unknown variable {variable}: {hint}")
        one = known[variable]
        yield (one.section, one.key), _parse(one, written, where=variable)


def _read_file(file: Path, notices: list[str]) -> Iterator[tuple[tuple[str, str], Any]]:
    table, text = read_toml(file)
    for section, values in table.items():
        if section in TABLES:
            yield TABLES[section], _parse_tables(file, text, section, values)
            continue
        if section not in SECTIONS:
            where = _locate(file, text, section)
            near = _did_you_mean(section, [*SECTIONS, *TABLES], "`")
            raise Misconfigured(f"{where}: unknown setting `{section}`: {near}")
        if not isinstance(values, dict):
            raise Misconfigured(f"{file}: `{section}` is a section: write [{section}] on its own line")
        for key, written in values.items():
            where = _locate(file, text, section, key)
            yield from _read_line(section, key, written, where=where, notices=notices)


def _read_line(
    section: str, key: str, written: object, *, where: str, notices: list[str]
) -> Iterator[tuple[tuple[str, str], Any]]:
    if (section, key) == ("crawl", "flags"):
        found = read_flags(str(written), select_settings(("crawl", "http.contact")), where=where)
        if found:
            lines = ", ".join(f"{one.key} = {json.dumps(one.write(value), ensure_ascii=False)}" for one, value in found)
            notices.append(FLAGS.format(where=where, lines=lines))
        yield from (((one.section, one.key), value) for one, value in found)
        return
    new_section, new_key = MOVED.get((section, key), (section, key))
    known = {key: one for one in file_settings() if one.section == new_section for key in one.keys}
    if new_key not in known:
        names = [one.key for one in known.values()]
        raise Misconfigured(f"{where}: unknown setting `{section}.{key}`: {_did_you_mean(key, names, '`')}")
    one = known[new_key]
    if (one.section, one.key) != (section, key):
        new = one.key if one.section == section else f"[{one.section}] {one.key}"
        notices.append(RENAMED.format(where=where, section=section, old=key, new=new))
    yield (one.section, one.key), _parse(one, written, where=where)


def _parse_tables(file: Path, text: str, section: str, written: object) -> Any:
    one = _find_setting(*TABLES[section])
    try:
        return one.parse(written)
    except ValueError as error:
        number = error.number if isinstance(error, TableError) else 1
        where = _locate(file, text, section, number=number)
        raise Misconfigured(f"{where}: `{one.section}.{one.key}`: {error}") from None


def _parse(one: Setting, written: object, *, where: str) -> Any:
    try:
        return one.parse(written)
    except ValueError as error:
        raise Misconfigured(f"{where}: `{one.section}.{one.key}`: {error}") from None


def read_toml(file: Path) -> tuple[dict[str, Any], str]:
    try:
        text = file.read_text(encoding="utf-8")
        return tomllib.loads(text), text
    except FileNotFoundError:
        raise Misconfigured(f"no settings file {file}: create it, or leave --config out to use the defaults") from None
    except (ValueError, RecursionError) as error:  # also a number of 5,000 digits, and lists in lists in lists
        raise Misconfigured(f"{file}: not valid TOML: {error}") from None


def _did_you_mean(wrong: str, names: Iterable[str], quote: str = "") -> str:
    known = list(dict.fromkeys(names))
    near = get_close_matches(wrong, known, n=1)
    return f"did you mean {quote}{near[0]}{quote}?" if near else f"use one of {', '.join(known)}"


def _locate(file: Path, text: str, section: str, key: str | None = None, *, number: int = 1) -> str:
    line = line_of(text, section, key, number=number)
    return f"{file}:{line}" if line else str(file)


def line_of(text: str, section: str, key: str | None = None, *, number: int = 1) -> int | None:
    """Return the line of a section, or of a key in it; of several tables that of the one with this number. Scanning is
    enough: sections are flat."""
    inside, left = False, number
    for at, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?\s*([\w.-]+)\s*\]", line)
        if header:
            inside = header[1] == section
            left -= inside
            if key is None and inside and not left:
                return at
        elif key is not None and inside and re.match(rf"\s*{re.escape(key)}\s*=", line):
            return at
    return None


# --- `[crawl] flags = "--depth 3 --no-traps"`, which older settings files have ---


def read_flags(text: str, settings: Sequence[Setting], *, where: str) -> list[tuple[Setting, Any]]:
    """Return the settings in `text`, read as the command line would."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Misconfigured(
            f"{where}: `crawl.flags`: {str(error).lower()}: write settings of [crawl] instead"
        ) from None
    written: dict[str, tuple[Setting, list[Any]]] = {}
    while words:
        one, value = _take_flag(words, settings, where=where)
        written.setdefault(one.key, (one, []))[1].append(value)
    return [(one, _flag_value(one, values, where=where)) for one, values in written.values()]


def _take_flag(words: list[str], settings: Sequence[Setting], *, where: str) -> tuple[Setting, Any]:
    """Remove one flag and its value from the front of `words`, and return them."""
    flag, equals, value = words.pop(0).partition("=")
    name = flag.removeprefix("--").replace("-", "_")
    for one in settings:
        names = (one.name, *one.declared.old)
        if one.is_switch and name in names:
            return one, True
        if one.is_switch and name.removeprefix("no_") in names:
            return one, False
        if name in names and (equals or words):
            return one, value if equals else words.pop(0)
    raise Misconfigured(f"{where}: `crawl.flags`: {flag} is not a flag of a crawl: `webmill crawl --help` lists them")


def _flag_value(one: Setting, values: list[Any], *, where: str) -> Any:
    try:
        return one.parse(values if one.is_list else values[-1])
    except ValueError as error:
        raise Misconfigured(f"{where}: `crawl.flags`: {one.flag}: {error}") from None
