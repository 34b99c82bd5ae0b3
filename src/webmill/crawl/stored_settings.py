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
NODE_SETTINGS = frozenset(
    {
        "name",
        "frontier",
        "strict",
        "lost_files",
        "backup",
        "concurrency",
        "file_size",
        "upload",
        "keep_local",
        "upload_backlog",
        "proxy",
        "source_address",
        "cookies",
        "browser_path",
        "browser_tabs",
        "browser_memory",
    }
)
START_SETTINGS = frozenset({"processes", "shards", "nodes", "join_wait"})  # what they were, the crawl's layout says

FROM_FILE = "from_file"  # in what nodes have agreed on: the keys that only webmill.toml says
IN_REDIS = "the flags that the crawl has in Redis"

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
    node = node_values(sources, folder, forget=forget)
    if running is not None:
        settings = settings_of_node(sources, node, stored=stored, running=running)
        layers = (settings_values(settings), drop(given, OWN))
        refuse_differences(settings, build_settings(*layers), given)
        return NodeSettings(settings, dict(stored), dict(running), to_json_values(node))
    before = drop(parse_stored(stored, source=IN_REDIS), forget)
    from_file = {name for name in before if name[1] in stored.get(FROM_FILE, ())}
    crawl = merge_with_file({**select(before, from_file), **sources.file}, {**drop(before, from_file), **given})
    run = merge_limits(sources.file, given)
    return NodeSettings(settings_of_node(sources, node, stored=crawl, running=run), crawl, run, to_json_values(node))


def node_values(sources: Sources, folder: Path, *, forget: Collection[Name] = ()) -> Values:
    """Return what a node was told for itself, now or before."""
    given = crawl_values({**sources.environment, **sources.flags})
    before = drop(parse_stored(read_stored(folder), source=folder / FILE), forget)
    return select({**before, **given}, crawl_names(NODE_SETTINGS))


def settings_of_node(
    sources: Sources, node: Values, *, stored: Mapping[str, Any], running: Mapping[str, Any]
) -> Settings:
    """Return the settings of a node: what all agreed on is `stored` and `running`, the rest it decides alone."""
    shared = {(one.section, one.key) for one in SETTINGS} - OWN
    here = drop({**sources.file, **sources.environment, **sources.flags}, shared)
    agreed = (parse_stored(stored, source=IN_REDIS), parse_stored(running, source=IN_REDIS))
    return build_settings(here, node, *agreed)


def reread_for_nodes(
    file: Values, *, stored: Mapping[str, Any], running: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what all nodes are to go on with when the file says this now: flags count before it, as they did."""
    flags, limits = parse_stored(stored, source=IN_REDIS), parse_stored(running, source=IN_REDIS)
    given = {name: value for name, value in flags.items() if name[1] not in stored.get(FROM_FILE, ())}
    given_limits = {name: value for name, value in limits.items() if name[1] not in running.get(FROM_FILE, ())}
    return merge_with_file(file, given), merge_limits(file, given_limits)


def merge_with_file(file: Values, given: Values) -> dict[str, Any]:
    """Return what all nodes have in common, as it is stored: with the names of what only the file says."""
    values = drop({**crawl_values(file), **given}, OWN | crawl_names(RUN_SETTINGS))
    return {**to_json_values(values), FROM_FILE: sorted(key for _, key in values.keys() - given.keys())}


def merge_limits(file: Values, given: Values) -> dict[str, Any]:
    values = select({**file, **given}, crawl_names(RUN_SETTINGS))
    return {**to_json_values(values), FROM_FILE: sorted(key for _, key in values.keys() - given.keys())}


def settings_values(settings: Settings) -> dict[Name, Any]:
    return {(one.section, one.key): setting_value(settings, one) for one in SETTINGS}


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


OWN = crawl_names(NODE_SETTINGS | START_SETTINGS)  # what a node decides alone


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
