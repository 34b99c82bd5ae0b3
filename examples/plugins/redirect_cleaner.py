"""Follow where links lead, not the counter that they go through: `/out?to=https%3A%2F%2Fexample.org%2F`.

Put it into your plugin folder (`webmill plugins` says where that is).
"""

from urllib.parse import parse_qs, urlsplit

from webmill import hookimpl


@hookimpl
def scope(url):
    parts = urlsplit(url)
    if parts.path != "/out":
        return None  # no opinion: the scope of the crawl decides
    targets = parse_qs(parts.query).get("to")
    return targets[0] if targets else False
