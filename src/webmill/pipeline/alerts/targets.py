"""Who is told: the rules of the settings, grouped by where their messages go."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from webmill.collection import STATE_FOLDER
from webmill.errors import Misconfigured
from webmill.infra.notify.base import NotifyOptions
from webmill.infra.user_agent import user_agent
from webmill.masking import hide_target
from webmill.pipeline.plugins import user_plugins
from webmill.search.query import SearchQuery, parse
from webmill.settings import AlertRule, Settings


class AlertTarget(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Where messages go, with the rules that send them there. `key` names its outbox."""

    key: str
    to: str
    name: str
    rules: tuple[AlertRule, ...]

    @property
    def shown(self) -> str:
        """Return the name, or the address without its secrets."""
        return self.name or hide_target(self.to)

    @property
    def is_webhook(self) -> bool:
        """Tell whether a program is told, not a person."""
        return self.to.partition(":")[0].lower() in ("http", "https", "plugin")

    @property
    def secret(self) -> str:
        return next((rule.secret for rule in self.rules if rule.secret), "")

    @cached_property
    def queries(self) -> list[SearchQuery]:
        """Return the query of each rule; one without parts finds everything."""
        return [parse(rule.match) for rule in self.rules]


def list_targets(rules: Sequence[AlertRule]) -> list[AlertTarget]:
    """Return the targets in the order of the rules. Rules of the same name, or the same address, share one."""
    grouped: dict[str, list[AlertRule]] = {}
    for rule in rules:
        grouped.setdefault(rule.name or rule.to, []).append(rule)
    for name, some in grouped.items():
        if len({rule.to for rule in some}) > 1:
            raise Misconfigured(
                f"[[alert]]: rules named {name!r} have different addresses in `to`: name them differently"
            )
    return [
        AlertTarget(key=_key_of(name), to=some[0].to, name=some[0].name, rules=tuple(some))
        for name, some in grouped.items()
    ]


def find_targets(rules: Sequence[AlertRule], names: Sequence[str]) -> list[AlertTarget]:
    """Return the targets of these names, or keys; all without names."""
    every = list_targets(rules)
    unknown = [name for name in names if not any(name in (one.name, one.key, one.shown) for one in every)]
    if unknown:
        known = ", ".join(one.shown for one in every) or "none"
        raise Misconfigured(f"no alert goes to {hide_target(unknown[0])!r}; there are: {known}")
    return [one for one in every if not names or any(name in (one.name, one.key, one.shown) for name in names)]


def notify_options(settings: Settings, target: AlertTarget) -> NotifyOptions:
    alerts, contact = settings.alerts, settings.http.contact
    return NotifyOptions(
        secret=target.secret or alerts.secret,
        allow_private=alerts.allow_private,
        mail_server=alerts.mail_server,
        mail_from=alerts.mail_from or (contact.removeprefix("mailto:") if "@" in contact else ""),
        user_agent=user_agent(contact),
        plugins=user_plugins().sources,
    )


def outbox_folder(root: Path) -> Path:
    return root / STATE_FOLDER / "alerts"


def outbox_file(root: Path, key: str) -> Path:
    return outbox_folder(root) / f"{key}.sqlite"


def _key_of(name: str) -> str:
    """Return the name of a file that does not tell the address."""
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
