"""`python -m webmill.testing`: serve the test web until Ctrl-C, for a look with curl or a browser."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from webmill.testing.features.base import Feature
from webmill.testing.features.catalog import all_features
from webmill.testing.web import TestWeb


def main() -> int:
    options = _options()
    if options.table:
        sys.stdout.write("".join(table(all_features())))
        return 0
    try:
        _serve(options)
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    return 0


def _serve(options: argparse.Namespace) -> None:
    say = sys.stdout.write
    with TestWeb(
        seed=options.seed, hosts=options.hosts, pages_per_host=options.pages, log_file=options.log, log_limit=1000
    ) as web:
        say("".join(f"{name:32} {address}:{port}\n" for name, (address, port) in web.resolve.items()))
        proxy = f"{web.addresses[0]}:{web.port}"
        say(f"\nAny of the addresses is a proxy for all names: curl -x {proxy} {web.home}\nEnd with Ctrl-C.\n")
        sys.stdout.flush()
        threading.Event().wait()


def table(features: tuple[Feature, ...]) -> list[str]:
    """The rows of docs/reference/test-web.md, under a heading per host."""
    rows: list[str] = []
    last = ""
    for feature in features:
        host = "NAME.rules.test" if feature.host.endswith(".rules.test") else feature.host
        if host != last:
            rows.append(f"\n### {host}\n\n| path | answer |\n|---|---|\n")
            last = host
        if host == feature.host:
            rows.append(f"| `{feature.path}` | {feature.says} |\n")
        elif feature.path not in ("/", "/open.html", "/closed.html"):  # every such host has these three pages
            rows.append(f"| `{feature.host}{feature.path}` | {feature.says} |\n")
    return rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m webmill.testing", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--pages", type=int, default=15, help="pages per host")
    parser.add_argument("--log", type=Path, help="append the visits to this file as JSON lines")
    parser.add_argument("--table", action="store_true", help="print the table of features and end")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
