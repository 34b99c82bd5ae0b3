"""What plugins have cost of late, for `webmill plugins`: a line of JSON for each hook of each process that has ended.

    $XDG_STATE_HOME/webmill/plugin-costs.jsonl      by default below ~/.local/state; at most twice MAX_SIZE

Nothing depends on it: what cannot be written or read is left out.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from webmill.infra.plugins.loaded import HookCost, Plugins

log = logging.getLogger(__name__)

MAX_SIZE = 256 << 10


class SpentOnHook(msgspec.Struct, frozen=True):
    """What one process has spent on a hook of a plugin. `version` is that of the plugin."""

    plugin: str
    version: str
    hook: str
    cost: HookCost


def spent_on(plugins: Plugins) -> list[SpentOnHook]:
    """Return what this process has spent since it was asked last."""
    versions, spent = {one.name: one.version for one in plugins.sources}, []
    for call in plugins.all_calls():
        if call.cost.calls:
            spent.append(SpentOnHook(call.plugin, versions[call.plugin], call.hook, call.cost))
            call.cost = HookCost()
    return spent


def add_up(spent: Iterable[SpentOnHook]) -> list[SpentOnHook]:
    """Return one for each hook of each plugin."""
    total = dict[tuple[str, str, str], HookCost]()
    for one in spent:
        total.setdefault((one.plugin, one.version, one.hook), HookCost()).add(one.cost)
    return [SpentOnHook(*key, cost) for key, cost in total.items()]


def record_spent(spent: Iterable[SpentOnHook], environment: Mapping[str, str]) -> None:
    """Add what was spent to the user's record."""
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in spent)
    if not lines:
        return
    file = _file(environment)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and file.stat().st_size > MAX_SIZE:
            file.replace(file.with_suffix(".old"))
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as out:
            out.write(lines)
    except OSError as error:
        log.info("what plugins cost is not recorded: %s", error)


def read_spent(environment: Mapping[str, str]) -> dict[tuple[str, str, str], HookCost]:
    """Return the sum of what was spent, by plugin, version and hook."""
    total: dict[tuple[str, str, str], HookCost] = defaultdict(HookCost)
    file = _file(environment)
    for one in (file.with_suffix(".old"), file):
        for line in _lines(one):
            try:
                said = msgspec.json.decode(line, type=SpentOnHook)
            except msgspec.MsgspecError:
                continue
            total[said.plugin, said.version, said.hook].add(said.cost)
    return total


def _lines(file: Path) -> list[bytes]:
    try:
        with file.open("rb") as stream:
            return stream.read(4 * MAX_SIZE).splitlines()
    except OSError:
        return []


def _file(environment: Mapping[str, str]) -> Path:
    named = Path(environment.get("XDG_STATE_HOME", ""))
    home = Path(environment.get("HOME", "~")).expanduser()
    return (named if named.is_absolute() else home / ".local" / "state") / "webmill" / "plugin-costs.jsonl"
