"""A private PostgreSQL cluster, trusted on loopback."""

from __future__ import annotations

import getpass
import os
import subprocess
import tempfile
from pathlib import Path

from tests.services.base import CannotStart, Running, binary, free_port

ENV = "WEBMILL_TEST_POSTGRES_URL"
# Debian keeps the server's programs out of PATH, one folder per version.
FOLDERS = sorted((str(path) for path in Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)


def start(folder: Path) -> Running:
    postgres = binary("postgres", package="postgresql", folders=FOLDERS, setting=ENV)
    programs = postgres.resolve().parent
    user = unprivileged_owner(folder)
    data = folder / "data"
    init = [str(programs / "initdb"), "-D", str(data), "-U", "webmill", "-A", "trust", "-E", "UTF8", "--no-sync"]
    done = subprocess.run(init, user=user, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotStart(f"initdb failed: {done.stderr.strip()}")
    port = free_port()
    command = [str(postgres), "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", str(folder)]

    def ready() -> bool:
        ask = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
        return subprocess.run(ask, check=False).returncode == 0

    url = f"postgresql://webmill@127.0.0.1:{port}/postgres"
    return Running("postgres", url, command, folder, ready, user=user).start()


def unprivileged_owner(folder: Path) -> str | None:
    """PostgreSQL refuses to run as root: lend the folder to another user."""
    if os.geteuid() != 0:
        return None
    owner = "postgres" if known("postgres") else "nobody"
    for path in (folder, *folder.parents):
        if path == Path(tempfile.gettempdir()) or path.stat().st_uid != 0 or path == Path("/"):
            break
        path.chmod(path.stat().st_mode | 0o011)
    subprocess.run(["chown", owner, str(folder)], check=True)
    return owner


def known(user: str) -> bool:
    return user != getpass.getuser() and subprocess.run(["id", user], capture_output=True, check=False).returncode == 0
