"""Redirects that are answered otherwise once their cookies are sent: to the same URL, or back to one that was visited.

A page behind a cookie wall redirects to itself, or to a page that sets the cookie and redirects back. A frontier knows
the URL by then, so it would never be asked again. It is, if a request would carry other cookies than the last one, and
a few times only: a server may set a new cookie each time.
"""

from __future__ import annotations

from collections import OrderedDict

from webmill.crawl.politeness.session import RequestFields, SiteSession
from webmill.formats.http.cookies import site_of
from webmill.formats.url.normalise import host_of

MOST_URLS = 10_000  # that redirected of late, of which the cookies are remembered
MOST_TIMES = 3  # that a URL is asked again for other cookies


class CookieRedirects:
    def __init__(self, session: SiteSession | None) -> None:
        self._session = session
        self._asked: OrderedDict[str, tuple[int, int]] = OrderedDict()  # hash of the cookies, and how often

    def is_other_session(self, url: str, sent: RequestFields) -> bool:
        """Tell whether a request for `url` would carry other cookies than the one that was redirected to it."""
        return self._session is not None and self._session.fields(url).cookies != sent.cookies

    def find_again(self, url: str, target: str, sent: RequestFields) -> tuple[str, ...]:
        """Note that `url` redirected to `target`, and return what is to be asked again if it has been visited: the
        target, where it is another URL and would get other cookies than the last time."""
        self._note(url, sent)
        if self._session is None or url == target or site_of(host_of(url)) != site_of(host_of(target)):
            return ()
        before = self._asked.get(target)
        if before is None:
            return (target,) if self.is_other_session(url, sent) else ()
        seen, times = before
        is_other = hash(self._session.fields(target).cookies) != seen
        return (target,) if is_other and times <= MOST_TIMES else ()

    def _note(self, url: str, sent: RequestFields) -> None:
        _, times = self._asked.pop(url, (0, 0))
        self._asked[url] = hash(sent.cookies), times + 1
        if len(self._asked) > MOST_URLS:
            self._asked.popitem(last=False)
