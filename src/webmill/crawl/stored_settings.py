"""The settings that a crawl stores: to go on with it, none of the flags is needed.

Flags count before variables, those before what the crawl stored, and that before webmill.toml. A crawl on many machines
stores what all nodes must agree on in Redis, the rest in the folder of the node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from webmill.errors import BadInput, Misconfigured
from webmill.infra import atomic
from webmill.infra.checksums import seal_json, unseal_json
from webmill.settings import Setting, Settings, Sources, Values, build_settings, refuse_untrusted, select_settings

FILE = "flags.json"
RUN_SETTINGS = frozenset({"max_pages", "max_time", "max_bytes", "max_wait", "refresh"})
NODE_SETTINGS = frozenset({"name", "frontier", "strict", "lost_files", "backup", "concurrency", "file_size", "cookies"})
START_SETTINGS = frozenset({"processes", "shards", "nodes"})  # what they were, the crawl's layout says

Name = tuple[str, str]


def read_stored(folder: Path) -> dict[str, Any]:
    """Return what was stored in a frontier's folder, by the names of settings."""
    return read_json(folder / FILE)


def store(values: Mapping[str, Any], folder: Path) -> None:
    atomic.make_folder(folder)
    data = seal_json(msgspec.json.format(msgspec.json.encode(values)))
    atomic.write_bytes(folder / FILE, data, mode=atomic.OWNER)  # the address of a Redis may have a password


def read_json(path: Path) -> dict[str, Any]:
    try:
        data = unseal_json(path.read_bytes(), source=str(path), repair="after a change of yours remove its `crc32`")
        return msgspec.json.decode(data, type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, UnicodeDecodeError, BadInput) as error:
        raise Misconfigured(f"{path}: {error}: repair it, or remove it and give all flags again") from error


def resolve_settings(
    sources: Sources, folder: Path, *, forget: Collection[Name] = ()
) -> tuple[Settings, dict[str, Any]]:
    """Return the settings of a crawl on one machine, and what is to be stored.

    `forget` names what was stored and does not count any more. Misconfigured: what was stored reaches out of a
    collection that the user does not trust.
    """
    before = drop(parse_stored(read_stored(folder), source=folder / FILE), forget)
    if not sources.is_trusted:
        refuse_untrusted(before, sources, folder=folder.parent, where=lambda _: str(folder / FILE))
    settings = build_settings(sources.file, before, sources.environment, sources.flags)
    return settings, to_json_values(
        {**before, **drop(crawl_values(sources.flags), crawl_names(RUN_SETTINGS | START_SETTINGS | {"lost_files"}))}
    )


class NodeSettings(msgspec.Struct, frozen=True):
    """The settings of a node, and what of them is stored: in Redis (`crawl`, `run`) and in its folder (`node`)."""

    settings: Settings
    crawl: dict[str, Any]
    run: dict[str, Any]
    node: dict[str, Any]


def agree_on_settings(
    sources: Sources,
    folder: Path,
    *,
    stored: Mapping[str, Any],
    running: Mapping[str, Any] | None,
    forget: Collection[Name] = (),
) -> NodeSettings:
    """Return what a node is to crawl with.

    `stored` is what the crawl was told before, `running` the limits of the run under way, which cannot be changed.
    """
    given = crawl_values({**sources.environment, **sources.flags})
    own = crawl_names(NODE_SETTINGS | START_SETTINGS)
    node = select(
        {**drop(parse_stored(read_stored(folder), source=folder / FILE), forget), **given}, crawl_names(NODE_SETTINGS)
    )
    source = "the flags that the crawl has in Redis"
    if running is None:
        before = drop(parse_stored(stored, source=source), forget)
        crawl = drop({**crawl_values(sources.file), **before, **given}, own | crawl_names(RUN_SETTINGS))
        run = select({**sources.file, **given}, crawl_names(RUN_SETTINGS))
    else:
        crawl, run = parse_stored(stored, source=source), parse_stored(running, source=source)
    shared = {(one.section, one.key) for one in SETTINGS} - own  # what a node does not decide alone
    here = drop({**sources.file, **sources.environment, **sources.flags}, shared)
    settings = build_settings(here, node, crawl, run)
    if running is not None:
        refuse_differences(settings, build_settings(here, node, crawl, run, drop(given, own)), given)
    return NodeSettings(settings, to_json_values(crawl), to_json_values(run), to_json_values(node))


def refuse_differences(agreed: Settings, wanted: Settings, given: Values) -> None:
    """Refuse a node whose flags differ from those of the others."""
    differing = [
        one.flag
        for one in SETTINGS
        if (one.section, one.key) in given and setting_value(wanted, one) != setting_value(agreed, one)
    ]
    if differing:
        raise Misconfigured(
            f"other nodes crawl with other values of {', '.join(differing)}: stop them, or leave it out"
        )


# --- values by (section, key), as sources have them, and by name, as files have them ---

SETTINGS: tuple[Setting, ...] = select_settings(("crawl", "http.contact"))


def crawl_values(values: Values) -> dict[Name, Any]:
    return select(values, {(one.section, one.key) for one in SETTINGS})


def select(values: Values, wanted: Collection[Name]) -> dict[Name, Any]:
    return {name: value for name, value in values.items() if name in wanted}


def drop(values: Values, unwanted: Collection[Name]) -> dict[Name, Any]:
    return {name: value for name, value in values.items() if name not in unwanted}


def crawl_names(keys: Collection[str]) -> set[Name]:
    return {("crawl", key) for key in keys}


def parse_stored(stored: Mapping[str, Any], *, source: object) -> dict[Name, Any]:
    """Return stored values by setting. Former names are understood, settings that are gone are skipped."""
    known = {name: one for one in SETTINGS for name in one.keys}
    try:
        return {
            (known[name].section, known[name].key): known[name].parse(value)
            for name, value in stored.items()
            if name in known and value is not None
        }
    except ValueError as error:
        raise Misconfigured(f"{source}: {error}: repair it, or remove it and give all flags again") from error


def to_json_values(values: Values) -> dict[str, Any]:
    """Return the values by key, as JSON brings them back."""
    by_key = {key: value for (_, key), value in values.items()}
    return msgspec.json.decode(msgspec.json.encode(by_key), type=dict[str, Any])


def setting_value(settings: Settings, one: Setting) -> Any:
    return getattr(getattr(settings, one.section), one.key)
