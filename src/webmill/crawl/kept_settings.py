"""What a crawl keeps of what it was told: to go on, none of the flags is needed.

Flags count before variables, those before what the crawl kept, and that before webmill.toml. A crawl on many machines
keeps what all nodes must agree on in Redis, the rest in the folder of the node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from webmill.errors import Misconfigured
from webmill.infra import atomic
from webmill.settings import Setting, Settings, Sources, Values, build, chosen_settings

FILE = "flags.json"
OF_ONE_RUN = frozenset({"max_pages", "max_time", "max_bytes", "max_wait", "refresh"})
OF_ONE_NODE = frozenset({"name", "frontier", "strict", "lost_files", "backup", "concurrency", "file_size"})
OF_THE_START = frozenset({"processes", "shards", "nodes"})  # what they were, the crawl's layout says

Name = tuple[str, str]


def read_kept(folder: Path) -> dict[str, Any]:
    """Return what was kept in a frontier's folder, by the names of settings."""
    return read_json(folder / FILE)


def keep(kept: Mapping[str, Any], folder: Path) -> None:
    atomic.make_folder(folder)
    atomic.write_bytes(folder / FILE, msgspec.json.format(msgspec.json.encode(kept)) + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: {error}: repair it, or remove it and give all flags again") from error


def settings_of(sources: Sources, folder: Path, *, forget: Collection[Name] = ()) -> tuple[Settings, dict[str, Any]]:
    """Return the settings of a crawl on one machine, and what is to be kept.

    `forget` names what was kept and does not count any more.
    """
    before = without(parsed(read_kept(folder), source=folder / FILE), forget)
    settings = build(sources.file, before, sources.environment, sources.flags)
    return settings, plain({**before, **without(of_crawl(sources.flags), names(OF_ONE_RUN | OF_THE_START))})


class Agreement(msgspec.Struct, frozen=True):
    """What all nodes of a crawl are told: the settings, and what of them is kept in Redis and in this folder."""

    settings: Settings
    crawl: dict[str, Any]
    run: dict[str, Any]
    node: dict[str, Any]


def agree(
    sources: Sources,
    folder: Path,
    *,
    stored: Mapping[str, Any],
    running: Mapping[str, Any] | None,
    forget: Collection[Name] = (),
) -> Agreement:
    """`stored` is what the crawl was told before, `running` the limits of the run under way: they cannot be changed."""
    said = of_crawl({**sources.environment, **sources.flags})
    own = names(OF_ONE_NODE | OF_THE_START)
    node = only({**without(parsed(read_kept(folder), source=folder / FILE), forget), **said}, names(OF_ONE_NODE))
    source = "the flags that the crawl has in Redis"
    if running is None:
        before = without(parsed(stored, source=source), forget)
        crawl = without({**of_crawl(sources.file), **before, **said}, own | names(OF_ONE_RUN))
        run = only({**sources.file, **said}, names(OF_ONE_RUN))
    else:
        crawl, run = parsed(stored, source=source), parsed(running, source=source)
    shared = {(one.section, one.key) for one in SETTINGS} - own  # what a node does not decide alone
    here = without({**sources.file, **sources.environment, **sources.flags}, shared)
    settings = build(here, node, crawl, run)
    if running is not None:
        refuse_others(settings, build(here, node, crawl, run, without(said, own)), said)
    return Agreement(settings, plain(crawl), plain(run), plain(node))


def refuse_others(agreed: Settings, wanted: Settings, said: Values) -> None:
    """A node that was told something else than the others may not join them."""
    differing = [
        one.flag
        for one in SETTINGS
        if (one.section, one.key) in said and value_of(wanted, one) != value_of(agreed, one)
    ]
    if differing:
        raise Misconfigured(
            f"other nodes crawl with other values of {', '.join(differing)}: stop them, or leave it out"
        )


# --- values by (section, key), as sources have them, and by name, as files have them ---

SETTINGS: tuple[Setting, ...] = chosen_settings(("crawl", "http.contact"))


def of_crawl(values: Values) -> dict[Name, Any]:
    return only(values, {(one.section, one.key) for one in SETTINGS})


def only(values: Values, wanted: Collection[Name]) -> dict[Name, Any]:
    return {name: value for name, value in values.items() if name in wanted}


def without(values: Values, unwanted: Collection[Name]) -> dict[Name, Any]:
    return {name: value for name, value in values.items() if name not in unwanted}


def names(keys: Collection[str]) -> set[Name]:
    return {("crawl", key) for key in keys}


def parsed(kept: Mapping[str, Any], *, source: object) -> dict[Name, Any]:
    """Names of before are understood, those of settings that are gone are not missed."""
    known = {name: one for one in SETTINGS for name in one.keys}
    try:
        return {
            (known[name].section, known[name].key): known[name].parse(value)
            for name, value in kept.items()
            if name in known and value is not None
        }
    except ValueError as error:
        raise Misconfigured(f"{source}: {error}: repair it, or remove it and give all flags again") from error


def plain(values: Values) -> dict[str, Any]:
    """As JSON brings it back."""
    by_key = {key: value for (_, key), value in values.items()}
    return msgspec.json.decode(msgspec.json.encode(by_key), type=dict[str, Any])


def value_of(settings: Settings, one: Setting) -> Any:
    return getattr(getattr(settings, one.section), one.key)
