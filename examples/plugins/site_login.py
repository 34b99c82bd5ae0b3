"""Fetch the pages of one site with a token: from the environment, so that it is in no file.

The token is archived as `***`. Cookies of a login need no plugin: docs/how-to/archive-behind-a-login.md.
"""

import os
from urllib.parse import urlsplit

from webmill import hookimpl

HOST = os.environ.get("INTRANET_HOST", "intranet.example.org")


@hookimpl
def before_request(url):
    token = os.environ.get("INTRANET_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token and urlsplit(url).hostname == HOST else None
