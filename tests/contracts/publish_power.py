"""Publishes one version after the other, for the power to be cut: `python -m tests.contracts.publish_power MODE ROOT`.

work      as always
faulty    nothing waits for the disk: the negative control
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.unit.publish.publish_program import publish_again_and_again
from webmill.infra.storage.local import LocalStorage


def main() -> None:
    mode, root = sys.argv[1:]
    if mode == "faulty":
        os.fsync = lambda _: None  # type: ignore[assignment]
    publish_again_and_again(LocalStorage(Path(root)), "x", 1_000_000)


if __name__ == "__main__":
    main()
