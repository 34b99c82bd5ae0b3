"""Settings: declared once in `sections`, read once in `reading`, passed on as values.

A setting `key` of section `[section]` is the variable WEBMILL_SECTION_KEY and the option `--key`.
"""

from __future__ import annotations

from webmill.settings.alerts_section import ALERT_KINDS, AlertKind, AlertRule, AlertsSettings
from webmill.settings.changes_section import ChangesSettings, IgnoreRule
from webmill.settings.crawl_section import CrawlSettings
from webmill.settings.declaration import Setting, setting
from webmill.settings.reading import (
    FILE_NAME,
    SECTIONS,
    IsTrusted,
    Sources,
    Values,
    all_settings,
    build_settings,
    file_settings,
    load_settings,
    outside_values,
    read_file_values,
    read_sources,
    refuse_untrusted,
    select_settings,
)
from webmill.settings.sections import (
    STAGES,
    TABLES,
    CommonCrawlSettings,
    CurateSettings,
    ExecutorSettings,
    ExtractSettings,
    HttpSettings,
    IndexSettings,
    LogSettings,
    MetricsSettings,
    PublishSettings,
    QualitySettings,
    QueueSettings,
    RunSettings,
    SearchSettings,
    Settings,
    WatchSettings,
)
from webmill.settings.serve_section import McpSettings, ServeSettings
from webmill.settings.sites_section import SiteSettings

__all__ = [
    "ALERT_KINDS",
    "FILE_NAME",
    "SECTIONS",
    "STAGES",
    "TABLES",
    "AlertKind",
    "AlertRule",
    "AlertsSettings",
    "ChangesSettings",
    "CommonCrawlSettings",
    "CrawlSettings",
    "CurateSettings",
    "ExecutorSettings",
    "ExtractSettings",
    "HttpSettings",
    "IgnoreRule",
    "IndexSettings",
    "IsTrusted",
    "LogSettings",
    "McpSettings",
    "MetricsSettings",
    "PublishSettings",
    "QualitySettings",
    "QueueSettings",
    "RunSettings",
    "SearchSettings",
    "ServeSettings",
    "Setting",
    "Settings",
    "SiteSettings",
    "Sources",
    "Values",
    "WatchSettings",
    "all_settings",
    "build_settings",
    "file_settings",
    "load_settings",
    "outside_values",
    "read_file_values",
    "read_sources",
    "refuse_untrusted",
    "select_settings",
    "setting",
]
