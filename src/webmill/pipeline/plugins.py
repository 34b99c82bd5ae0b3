"""The plugins of this user, for the stages: which of them each stage has to do with.

Every process that calls hooks is told which plugins there are, and loads them itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from webmill.infra.plugins.costs import SpentOnHook, record_spent
from webmill.infra.plugins.loaded import Plugins, load_plugins
from webmill.infra.plugins.sources import PluginSource, find_plugins
from webmill.settings import AlertRule, Settings


def user_plugins() -> Plugins:
    """Return all plugins of this user, loaded. Misconfigured: one cannot be."""
    return load_plugins(find_plugins(os.environ))


def crawl_plugins() -> tuple[PluginSource, ...]:
    return user_plugins().sources_of("scope", "before_request", "after_response")


def document_plugins() -> tuple[PluginSource, ...]:
    return user_plugins().sources_of("extract", "document")


def record_costs(spent: Iterable[SpentOnHook]) -> None:
    record_spent(spent, os.environ)


def alert_rules(settings: Settings) -> tuple[AlertRule, ...]:
    """Return the rules of the settings, and one for each plugin that is told of every change."""
    names = [call.plugin for call in user_plugins().calls("on_change")]
    given = {rule.to for rule in settings.alerts.rules}
    implied = [AlertRule(to=f"plugin:{name}") for name in names if f"plugin:{name}" not in given]
    return (*settings.alerts.rules, *implied)
