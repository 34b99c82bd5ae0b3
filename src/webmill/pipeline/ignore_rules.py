"""The settings [changes] and [[ignore]] as the stages take them: selectors for extract, the rest for publish."""

from __future__ import annotations

from webmill.errors import BadInput, Misconfigured
from webmill.extract.ignored_elements import IgnoredElements, check_selector
from webmill.publish.change_rules import ChangeRules, SiteRule, compile_site_rule
from webmill.settings import ChangesSettings, IgnoreRule


def change_rules(settings: ChangesSettings) -> ChangeRules:
    """Return the rules by which changes are listed. Misconfigured: a pattern is wrong."""
    return ChangeRules(
        threshold=settings.threshold,
        noise=settings.ignore_noise,
        sites=tuple(_compile(number, rule) for number, rule in enumerate(settings.rules, 1)),
    )


def ignored_elements(settings: ChangesSettings) -> tuple[IgnoredElements, ...]:
    """Return which elements are left out of texts. Misconfigured: a selector is wrong."""
    for number, rule in enumerate(settings.rules, 1):
        try:
            for selector in rule.selectors:
                check_selector(selector)
        except BadInput as error:
            raise Misconfigured(f"[[ignore]] number {number}: selectors: {error.message}") from error
    return tuple(IgnoredElements(rule.match, rule.selectors) for rule in settings.rules if rule.selectors)


def check_rules(settings: ChangesSettings) -> None:
    """Raise Misconfigured if a pattern or a selector is wrong."""
    change_rules(settings)
    ignored_elements(settings)


def _compile(number: int, rule: IgnoreRule) -> SiteRule:
    try:
        return compile_site_rule(
            rule.match, patterns=rule.patterns, numbers=rule.numbers, dates=rule.dates, threshold=rule.threshold
        )
    except BadInput as error:
        raise Misconfigured(f"[[ignore]] number {number}: patterns: {error.message} (RE2)") from error
