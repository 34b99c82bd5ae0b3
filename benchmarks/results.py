"""`RESULTS.md`: what each race printed when it was last run with `--write`, and on what."""

from __future__ import annotations

import ast
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import distributions, version
from pathlib import Path

HERE = Path(__file__).parent
FILE = HERE / "RESULTS.md"
HEAD = """\
# webmill beside its rivals

Made by `make bench` ([what is raced](README.md)); each race stands here as it was last run. Ratios of one run count,
times of a shared machine do not. *Times our CPU*: 2.00 is a rival that needs twice the CPU time for the same work.
"""
PART = re.compile(r"^<!-- (\w+) -->\n(.*?)(?=^<!-- \w+ -->\n|\Z)", re.MULTILINE | re.DOTALL)
PACKAGES = [
    "fastwarc",
    "warcio",
    "resiliparse",
    "trafilatura",
    "selectolax",
    "lxml",
    "beautifulsoup4",
    "scrapy",
    "crawlee",
    "pywb",
    "cdxj-indexer",
    "surt",
    "aiohttp",
    "httpx",
    "urllib3",
    "tantivy",
    "numpy",
    "onnxruntime",
    "usearch",
    "duckdb",
    "pika",
    "persist-queue",
    "uvicorn",
    "starlette",
    "boto3",
    "redis",
    "rocksdict",
    "datatrove",
    "datasketch",
    "gaoya",
    "spacy",
]


def run(name: str, *, write: bool) -> bool:
    """The race, shown while it runs."""
    command = [sys.executable, "-u", "-m", "benchmarks", name, "--here"]
    printed = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            print(line, end="", flush=True)
            printed.append(line)
    if process.returncode == 0 and write:
        put(name, "".join(printed))
    return process.returncode == 0


def put(name: str, printed: str) -> None:
    parts = dict(PART.findall(FILE.read_text())) if FILE.exists() else {}
    parts[name] = part(name, printed)
    body = "".join(f"<!-- {each} -->\n{parts[each]}" for each in sorted(parts))
    FILE.write_text(f"{HEAD}\n{body.rstrip()}\n")


def part(name: str, printed: str) -> str:
    about = ast.get_docstring(ast.parse((HERE / f"{name}.py").read_text())) or ""
    shown = re.sub(r"^## ", "### ", printed, flags=re.MULTILINE).strip()
    return f"## {name}\n\n{about}\n\n*{datetime.now(UTC):%Y-%m-%d}, {machine()}; {versions(name)}.*\n\n{shown}\n\n"


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    system = f"{platform.system()} {platform.machine()}"
    return f"{cpu()}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}, Python {platform.python_version()}"


def cpu() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or "an unknown CPU"


def versions(name: str) -> str:
    """Of webmill and of the packages that the race names, from whichever environment has them."""
    source = (HERE / f"{name}.py").read_text().lower()
    rivals = "".join(path.read_text().lower() for path in (HERE / "rivals").glob("*.py") if path.stem in source)
    environments = [str(path) for path in HERE.parent.glob(".venv*/lib/python*/site-packages")]
    found = {each.metadata["Name"].lower(): each.version for each in distributions(path=environments)}
    named = [each for each in PACKAGES if each in found and re.search(rf"\b{each}\b", source + rivals)]
    return ", ".join([f"webmill {version('webmill')}", *(f"{each} {found[each]}" for each in named)])
