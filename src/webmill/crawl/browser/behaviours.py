"""What a visitor would do with a page: agree to cookies, scroll, press "load more". Users add rules for sites.

A rule is a file in the folder `behaviors` of a collection:

    # behaviors/shop.toml
    match = ["shop.example.org", "*.example.com/news/*"]
    first = [{ selector = "#cookie-no" }]          # pressed once, before all else
    more = [{ text = "^more reviews$" }]           # pressed until it is gone, 10 times at most
    scrolls = 100                                  # screens down, 30 without a rule

They say what is pressed, and run nothing. Of several that match, the one that says most about a URL counts.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec

from webmill.crawl.sites import CrawlSites
from webmill.errors import Misconfigured
from webmill.settings.sites_section import SiteSettings

MOST_FILES, MOST_BYTES = 500, 1 << 20

_REFUSE = """
reject( all| cookies)*; refuse( all)?; decline( all)?; (only )?necessary( cookies)?( only)?; alle ablehnen; ablehnen;
nur (notwendige|erforderliche).*; tout refuser; continuer sans accepter; rechazar( todo| todas)?; rifiuta( tutto)?;
alles weigeren; recusar( tudo)?
"""
_AGREE = """
(accept|allow)( all)?( cookies)?; i (accept|agree); agree( and continue)?; got it!?; alle akzeptieren; akzeptieren;
zustimmen; einverstanden; tout accepter; accepter; aceptar( todo| todas)?; accetta( tutto)?; alles accepteren;
aceitar( tudo)?
"""
_MORE = """
(load|show|view|see|read) (more|all)( .{1,20})?; more (posts|articles|results|comments|stories);
(mehr|weitere .{1,20}) (laden|anzeigen); mehr (laden|anzeigen); (afficher|voir|charger) plus( .{1,20})?;
(cargar|ver|mostrar) más; (carica|mostra) altro; meer (laden|tonen); (carregar|ver|mostrar) mais
"""


class ClickRule(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is pressed: what a selector finds, or a button with a text (a regular expression of JavaScript), or both."""

    selector: str = ""
    text: str = ""


def _one_of(labels: str) -> ClickRule:
    return ClickRule(text=f"^({'|'.join(label.strip() for label in labels.split(';'))})$")


FIRST, MORE = (_one_of(_REFUSE), _one_of(_AGREE)), (_one_of(_MORE),)


class SiteBehaviour(msgspec.Struct, frozen=True, kw_only=True):
    first: tuple[dict[str, str], ...] = ()
    more: tuple[dict[str, str], ...] = ()
    scrolls: int = 30


class BehaviourFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    match: list[str]
    first: list[ClickRule] = []
    more: list[ClickRule] = []
    scrolls: int = 30


class Behaviours:
    """The rules of a collection; the general ones come after those of a site."""

    def __init__(self, files: tuple[BehaviourFile, ...] = ()) -> None:
        tables = [(SiteSettings(match=tuple(file.match)), file) for file in files]
        self._sites = CrawlSites(table for table, _ in tables)
        self._files = {id(table): file for table, file in tables}

    def of(self, url: str) -> SiteBehaviour:
        found = self._sites.find(url)
        own = self._files[id(found)] if found else BehaviourFile([])
        return SiteBehaviour(
            first=tuple(map(_written, (*own.first, *FIRST))),
            more=tuple(map(_written, (*own.more, *MORE))),
            scrolls=max(0, min(own.scrolls, 1000)),
        )


def load_behaviours(folder: Path) -> Behaviours:
    """Return the rules in a folder, which need not be there. Misconfigured: a file is none of rules."""
    if not folder.is_dir():
        return Behaviours()
    return Behaviours(tuple(_load(path) for path in sorted(folder.glob("*.toml"))[:MOST_FILES]))


def _load(path: Path) -> BehaviourFile:
    try:
        with path.open("rb") as file:
            written = tomllib.loads(file.read(MOST_BYTES).decode())
        rules = msgspec.convert(written, BehaviourFile)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise Misconfigured(f"{path}: {error}: see docs/reference/browser.md for how such a file is written") from error
    for rule in (*rules.first, *rules.more):
        if not (rule.selector or rule.text):
            raise Misconfigured(f"{path}: a rule has neither a selector nor a text: say what is pressed")
        if rule.text:
            _check_pattern(path, rule.text)
    return rules


def _check_pattern(path: Path, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise Misconfigured(f"{path}: {pattern!r} is no regular expression ({error})") from error


def _written(rule: ClickRule) -> dict[str, str]:
    return {name: value for name, value in (("selector", rule.selector), ("text", rule.text)) if value}
