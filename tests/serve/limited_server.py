"""python -m tests.serve.limited_server DIR --port 0 [LIMIT=VALUE]...: one process, with limits of the test's own."""

from __future__ import annotations

import multiprocessing
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from webmill.infra.log import configure
from webmill.serve.app import application, replay_application
from webmill.serve.guard.client_address import TrustedProxies
from webmill.serve.http.connection_limiter import ConnectionLimiter
from webmill.serve.open_site import open_site
from webmill.serve.processes.metrics import REFUSED
from webmill.serve.processes.server import serve
from webmill.serve.processes.supervisor import listen
from webmill.serve.site import ClientLimits
from webmill.settings import ServeSettings, Settings


def main(root: str, *words: str) -> None:
    configure(verbosity=0, form="text")
    limits: dict[str, Any] = {"rate": 0.0, "refusals": 0}
    for word in words:
        name, _, value = word.partition("=")
        limits[name] = type(getattr(ClientLimits(), name))(value)
    with listen("127.0.0.1", 0, flag="") as own, listen("127.0.0.1", 0, flag="") as replay:
        addresses = [f"http://127.0.0.1:{one.getsockname()[1]}" for one in (own, replay)]
        site = replace(
            open_site(
                Path(root),
                Settings(serve=ServeSettings(rate=0)),
                address=addresses[0],
                replay_address=addresses[1],
                secret=b"secret",
            ),
            limits=ClientLimits(**limits),
        )
        numbers = site.metrics
        limiter = ConnectionLimiter(
            site.limits, exempt=TrustedProxies(()), on_refused=lambda reason: numbers.count(REFUSED, reason=reason)
        )
        ours, theirs = multiprocessing.Pipe()
        print(f"serving at {addresses[0]}/ (archived pages at {addresses[1]}/)", flush=True)
        apps = {own: application(site), replay: replay_application(site)}
        serve(apps, limits=site.limits, limiter=limiter, load=site.load, tls=None, parent=theirs, on_tick=lambda: None)
        ours.close()


if __name__ == "__main__":
    main(sys.argv[1], *sys.argv[4:])
