"""What does not depend on a collection."""

from __future__ import annotations

import importlib.util
import platform
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

import webmill
from webmill.infra.sqlite import has_wal_reset_bug
from webmill.pipeline.doctor.findings import DoctorFinding

FEW_FILES, ENOUGH_FILES = 256, 4096
EXTRAS = {
    "parquet": "pyarrow",
    "text": "trafilatura",
    "languages": "pycld2",
    "pdf": "pypdf",
    "s3": "obstore",
    "redis": "redis",
    "rabbitmq": "aiormq",
    "sqs": "boto3",
    "postgres": "psycopg",
    "ray": "ray",
    "fast": "uvloop",
}


def check_machine() -> Iterator[DoctorFinding]:
    yield DoctorFinding(
        part="webmill",
        state="good",
        found=f"{webmill.__version__} on Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    )
    yield check_extras()
    yield check_sqlite(apsw.sqlite_lib_version())
    yield check_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    yield check_clock(time.time(), made=Path(webmill.__file__).stat().st_mtime)


def check_extras() -> DoctorFinding:
    missing = [extra for extra, module in EXTRAS.items() if not importlib.util.find_spec(module)]
    if not missing:
        return DoctorFinding(part="extras", state="good", found="all are installed")
    words = ", ".join(missing)
    return DoctorFinding(
        part="extras",
        state="good",
        found=f"not installed: {words}",
        repair=f"when you need one: pip install 'webmill[{missing[0]}]'",
    )


def check_sqlite(version: str) -> DoctorFinding:
    if has_wal_reset_bug(version):
        return DoctorFinding(
            part="sqlite",
            state="doubt",
            found=f"SQLite {version} has the WAL-reset bug",
            promise="queues and frontiers use the rollback journal: durable, but slower",
            repair="pip install --upgrade apsw",
        )
    return DoctorFinding(
        part="sqlite",
        state="good",
        found=f"SQLite {version}, write-ahead log",
        promise="what a queue or a frontier has acknowledged is on the disk",
    )


def check_open_files(limit: int) -> DoctorFinding:
    found = "no limit of open files" if limit == resource.RLIM_INFINITY else f"{limit:,} open files at most"
    if limit == resource.RLIM_INFINITY or limit >= ENOUGH_FILES:
        return DoctorFinding(part="open files", state="good", found=found)
    return DoctorFinding(
        part="open files",
        state="doubt" if limit >= FEW_FILES else "bad",
        found=found,
        promise="a crawl of many hosts and a server with many clients will wait for each other",
        repair=f"ulimit -n {ENOUGH_FILES}",
    )


def check_clock(now: float, *, made: float) -> DoctorFinding:
    """Check that the clock is not earlier than the day this package was installed."""
    found = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < made - 60:
        return DoctorFinding(
            part="clock",
            state="bad",
            found=f"{found}, which is before webmill was installed here",
            promise="dates of captures and versions will be wrong; order and politeness hold all the same",
            repair="set the clock (timedatectl set-ntp true)",
        )
    return DoctorFinding(part="clock", state="good", found=found)
