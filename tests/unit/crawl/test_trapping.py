"""The short version of benchmarks/trapping.py: what traps cost, and that no page of a real site is lost."""

from __future__ import annotations

import pytest
from benchmarks import trapping

from webmill.crawl.yields.domain_yield import MOST_COARSE, TRIAL, YieldBudget

MOST = 900
DEAREST = YieldBudget().of_domain + MOST_COARSE * TRIAL


@pytest.mark.parametrize("name", ["calendar", "facets", "replytocom", "doubled paths", "endless pagination", "tokens"])
def test_a_trap_costs_few_requests_and_no_real_page(name: str) -> None:
    site = trapping.with_real_pages(*trapping.TRAPS[name])
    start = f"{trapping.HOST}/"
    after = trapping.crawl(site, start, guarded=True, most=MOST, is_real=trapping.is_real_page)
    assert after.real == trapping.REAL_PAGES
    assert after.requests <= min(DEAREST, MOST - 1)
    assert after.parked


@pytest.mark.parametrize("name", ["newspaper", "gallery", "tables of numbers"])
def test_no_page_of_a_site_without_a_trap_is_lost(name: str) -> None:
    [(site, start)] = [(site, start) for each, site, start in trapping.made_sites(600) if each == name]
    after = trapping.crawl(site, start, guarded=True, is_real=bool)
    assert after.real >= 600
    assert not after.parked
