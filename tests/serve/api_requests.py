"""Requests that schemathesis makes of the API's description, to a real server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.serve.sample_collection import NAME

CHECKS = (  # no 5xx, and no answer that is not described
    *("not_a_server_error", "status_code_conformance", "content_type_conformance"),
    *("response_schema_conformance", "response_headers_conformance"),
)
KNOWN = {  # what is in the collection: without these, nearly everything would be 404
    "id": "example,town)/",
    "url": "https://town.example/",
    "name": NAME,
    "crawl": NAME,
    "timestamp": "20230401120000",
    "q": "ferry",
    "site": ["town.example"],
    "language": ["eng"],
    "facet": "language=eng",
    "start": "example,town)/",
    "end": "example,town)0",
    "filter": ["=status:200"],
    "Range": "bytes=0-99",
    "Accept-Datetime": "Sat, 01 Apr 2023 12:00:00 GMT",
}


def run_schemathesis(address: str, folder: Path, *, examples: int, seed: int, phases: str) -> tuple[int, str]:
    """Return how many requests were answered, and what was wrong with them; nothing if nothing was."""
    document = folder / "openapi.json"
    document.write_text(json.dumps(with_known_values(address)))
    before = answered(address)
    command = [str(Path(sys.executable).with_name("st")), "--no-color", "run", str(document), "--url", address]
    command += ["--checks", ",".join(CHECKS), "--phases", phases, "--max-examples", str(examples), "--seed", str(seed)]
    command += [
        "--no-shrink",
        "--continue-on-failure",
        "--generation-database",
        "none",
        "--suppress-health-check",
        "all",
    ]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    said = "\n".join(line[:400] for line in (ended.stdout + ended.stderr).splitlines())
    return answered(address) - before, "" if ended.returncode == 0 else said


def with_known_values(address: str) -> dict[str, Any]:
    """Return the description with examples of what is there."""
    document: dict[str, Any] = get_json(f"{address}/openapi.json")
    version = get_json(f"{address}/api/versions")["versions"][-1]["version"]
    item = get_json(f"{address}/api/documents")["items"][0]
    known = {**KNOWN, "version": version, "hash": item["hash"]}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                name = parameter["name"]
                if name in known:
                    array = parameter["schema"].get("type") == "array"
                    value = known[name] if not array or isinstance(known[name], list) else [known[name]]
                    parameter["examples"] = {"known": {"value": value}}
                elif name == "path":
                    parameter["examples"] = {"known": {"value": path_below(path)}}
    return document


def path_below(path: str) -> str:
    if path.startswith("/snapshots"):
        return "meta/facets.json"
    return f"collections/{NAME}/indexes/cluster.idx" if path.startswith("/cc-index") else "collinfo.json"


def get_json(url: str) -> Any:
    return json.loads(urlopen(url).read())


def answered(address: str) -> int:
    """How many requests the server has answered, by its own count."""
    metrics = urlopen(f"{address}/metrics").read().decode()
    return int(sum(map(float, re.findall(r"^webmill_serve_requests_total\{[^}]*\} (\S+)$", metrics, re.MULTILINE))))
