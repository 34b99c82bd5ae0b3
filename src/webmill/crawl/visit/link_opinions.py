"""What plugins say of links, before the scope of the crawl is asked."""

from __future__ import annotations

from collections.abc import Sequence

from webmill.crawl.page.url_joining import join_urls
from webmill.infra.plugins.loaded import Plugins


def ask_plugins(plugins: Plugins, urls: Sequence[str], depth: int) -> tuple[list[str], dict[str, bool]]:
    """Return the URLs as plugins want them, and which of them are followed, or not, because a plugin says so."""
    found, opinions = dict[str, None](), dict[str, bool]()
    for url in urls:
        opinion = plugins.judge_link(url, depth)
        if isinstance(opinion, str):
            found |= dict.fromkeys(join_urls(url, [opinion]))  # normalised, as all are
            continue
        if opinion is not None:
            opinions[url] = opinion
        found[url] = None
    return [*found], opinions
