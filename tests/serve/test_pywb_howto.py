"""pywb over our files and over our server, with the configurations that docs/how-to/pywb.md shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.serve.sample_collection import NAME, visits
from tests.serve.server_process import serving
from tests.unit.index.test_pywb_reads_our_zipnum import get, wayback

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "pywb.md"
BLOCK = re.compile(r"```yaml\n# (\w+)\n(.*?)```", re.DOTALL)


def test_pywb_replays_from_our_files_and_from_our_server(judges: Path, sample_root: Path, tmp_path: Path) -> None:
    blocks = dict(BLOCK.findall(PAGE.read_text()))
    assert list(blocks) == ["files", "served", "several"]
    with serving(sample_root, tmp_path / "errors", "--no-feed", "--rate", "0") as server:
        config = "collections:\n" + "".join(text.removeprefix("collections:\n") for text in blocks.values())
        config = config.replace("DIR", str(sample_root)).replace("NAME", NAME).replace("ADDRESS", server.address)
        (tmp_path / "config.yaml").write_text(config)
        with wayback(judges, tmp_path) as url:
            for name in ("town", "served-town", "all"):
                check(f"{url}/{name}")


def check(url: str) -> None:
    expected = {visit.when: visit.body for visit in visits() if visit.url == "https://town.example/"}
    for when in ("20220310080000", "20230401120500"):  # the second is a revisit of the one before
        assert get(f"{url}/{when}id_/https://town.example/") == expected[when]
    listed = get(f"{url}/cdx?url=town.example/clock&output=json").splitlines()
    assert len(listed) == 72
    assert json.loads(listed[0])["timestamp"] == "20240101000000"
