"""`python -m webmill.testing`: serve the test web until Ctrl-C, to try it with curl or a browser."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from webmill.errors import Misconfigured
from webmill.testing.features.base import Feature
from webmill.testing.features.catalog import all_features
from webmill.testing.server import FALLBACK
from webmill.testing.web import ADDRESSES, TestWeb


def main() -> int:
    options = _options()
    if options.table:
        sys.stdout.write("".join(table(all_features())))
        return 0
    try:
        _serve(options)
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    except Misconfigured as error:
        sys.exit(f"{error}")
    return 0


def _serve(options: argparse.Namespace) -> None:
    write = sys.stdout.write
    # With a given port, all hosts share 127.0.0.1 and are told apart by the Host header.
    addresses = (FALLBACK,) if options.port else ADDRESSES
    with TestWeb(
        seed=options.seed,
        hosts=options.hosts,
        pages_per_host=options.pages,
        addresses=addresses,
        port=options.port,
        log_file=options.log,
        log_limit=1000,
    ) as web:
        web.version = options.version
        write("".join(f"{name:32} {address}:{port}\n" for name, (address, port) in web.resolve.items()))
        proxy = f"{web.addresses[0]}:{web.port}"
        write(f"\nAny of these addresses is a proxy for all names: curl -x {proxy} {web.home}\nStop with Ctrl-C.\n")
        sys.stdout.flush()
        threading.Event().wait()


def table(features: tuple[Feature, ...]) -> list[str]:
    """Return the rows of docs/reference/test-web.md, under a heading per host."""
    rows: list[str] = []
    last = ""
    for feature in features:
        host = "NAME.rules.test" if feature.host.endswith(".rules.test") else feature.host
        if host != last:
            rows.append(f"\n### {host}\n\n| path | answer |\n|---|---|\n")
            last = host
        if host == feature.host:
            rows.append(f"| `{feature.path}` | {feature.description} |\n")
        elif feature.path not in ("/", "/open.html", "/closed.html"):  # every such host has these three pages
            rows.append(f"| `{feature.host}{feature.path}` | {feature.description} |\n")
    return rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m webmill.testing", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--pages", type=int, default=15, help="pages per host")
    parser.add_argument("--port", type=int, default=0, help="serve all hosts on 127.0.0.1 at this port")
    parser.add_argument(
        "--version",
        type=int,
        default=1,
        help="version of the web; from 2 on some pages have changed, gone or been added",
    )
    parser.add_argument("--log", type=Path, help="append each request to this file as a JSON line")
    parser.add_argument("--table", action="store_true", help="print the table of features and exit")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
