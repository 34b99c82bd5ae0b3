"""The settings of alerts: section [alerts], and a [[alert]] for each rule."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec

from webmill.settings.declaration import setting
from webmill.settings.tables import parse_tables
from webmill.settings.value_formats import Duration, ValueFormat

AlertKind = Literal["added", "changed", "removed", "moved"]
ALERT_KINDS: tuple[AlertKind, ...] = ("added", "changed", "removed", "moved")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")


class AlertRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is told to whom. `to` is mailto:…, https://… (a webhook), or an address of Apprise for chat services, and
    may hold tokens: it is never shown. Without `match` every change is told. `name` is shown in its place, and keeps
    what waits to be sent when `to` changes. `secret` signs the messages of a webhook.
    """

    to: str
    match: str = ""
    name: str = ""
    kinds: tuple[AlertKind, ...] = ALERT_KINDS
    digest: Literal["run", "hour", "day"] = "run"
    secret: str = ""


def parse_rules(written: object) -> tuple[AlertRule, ...]:
    """Return the rules of a list of tables, or of a text with JSON, as a variable has it."""
    rules = parse_tables(written, AlertRule, name="alert", example='to = "mailto:me@example.org"', lists=("kinds",))
    for rule in rules:
        if not _ADDRESS.fullmatch(rule.to):  # which is not shown: it may be half of a secret
            raise ValueError("`to` is not an address: write mailto:me@example.org, https://… or an address of Apprise")
    return rules


def _write_rules(rules: tuple[AlertRule, ...]) -> list[Any]:
    return [msgspec.to_builtins(rule) for rule in rules]


AlertRules = Annotated[tuple[AlertRule, ...], ValueFormat("JSON", parse_rules, _write_rules)]


class AlertsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How changes are told. Who is told what is said by rules: a [[alert]] for each, see docs/reference/alerts.md."""

    rules: Annotated[
        AlertRules,
        setting("The rules; in a file each is a [[alert]].", reach="other", only="file", secret=True, metavar="JSON"),
    ] = ()
    mail_server: Annotated[
        str,
        setting(
            "Server for mail: smtp://USER:PASSWORD@HOST:587 (STARTTLS) or smtps://USER:PASSWORD@HOST:465.",
            reach="other",
            only="file",
            metavar="URL",
            secret=True,
        ),
    ] = ""
    mail_from: Annotated[
        str, setting("Sender of mail.", reach="inside", only="file", none="the contact, if it is an e-mail address")
    ] = ""
    secret: Annotated[
        str,
        setting(
            "Key that signs the messages of webhooks (HMAC-SHA256), if their rule has none.",
            reach="inside",
            only="file",
            secret=True,
        ),
    ] = ""
    allow_private: Annotated[
        bool, setting("Allow webhooks on private and loopback addresses.", reach="other", only="file")
    ] = False
    attempts: Annotated[
        int, setting("Attempts to deliver a message until it is given up.", reach="inside", only="file", least=1)
    ] = 10
    retry_wait: Annotated[
        Duration,
        setting("Time before the second attempt; it doubles with each one, up to 6h.", reach="lower", only="file"),
    ] = 60.0
