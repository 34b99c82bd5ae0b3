"""The registered domain of a host (eTLD+1), the unit of politeness and of statistics.

By the Public Suffix List that tldextract includes: no network, no cache on disk. Two views, as in Common Crawl's table:
`registered_domain` (its `url_host_registered_domain`) uses only suffixes of registries, `private_domain` (its
`url_host_private_domain`) also those of providers whose customers are separate sites: `me.github.io` is one,
`github.io` is not.

Neither exists (None) for an IP address, a single label such as `localhost`, and a suffix itself. A name under a TLD
that is not in the list follows the list's default rule `*`: `www.shop.test` belongs to `shop.test`.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tldextract import TLDExtract


@lru_cache(maxsize=65536)
def registered_domain(host: str) -> str | None:
    """Return the registered domain of a host by the suffixes of registries."""
    return _under_suffix(host, private=False)


@lru_cache(maxsize=65536)
def private_domain(host: str) -> str | None:
    """Return the registered domain of a host, also by private suffixes such as `github.io`."""
    return _under_suffix(host, private=True)


def _under_suffix(host: str, *, private: bool) -> str | None:
    labels = host.lower().removesuffix(".").split(".")
    if len(labels) < 2 or not all(labels) or labels[-1].isdigit() or ":" in host:
        return None
    taken = _labels_of_suffix(labels, private=private)
    return ".".join(labels[-taken - 1 :]) if len(labels) > taken else None


def _labels_of_suffix(labels: list[str], *, private: bool) -> int:
    """Return the number of labels of the suffix.

    Most TLDs, such as .com, need no lookup, which is four times as fast.
    """
    extract, deep = _suffixes(private=private)
    if labels[-1] not in deep:
        return 1
    suffix = extract.extract_str(".".join(labels)).suffix
    return suffix.count(".") + 1 if suffix else 1


@cache
def _suffixes(*, private: bool) -> tuple[TLDExtract, frozenset[str]]:
    """Return the list, and the TLDs that have suffixes of more than one label, in Unicode and in punycode."""
    # Imported late: tldextract loads an HTTP client (0.3 s) that is never used here.
    import tldextract

    extract = tldextract.TLDExtract(
        suffix_list_urls=(), cache_dir=None, fallback_to_snapshot=True, include_psl_private_domains=private
    )
    deep = {suffix.rpartition(".")[2] for suffix in extract.tlds if "." in suffix}
    return extract, frozenset(deep | {label.encode("idna").decode() for label in deep})
