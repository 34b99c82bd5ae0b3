"""`webmill serve A B`: a list, and each collection at origins, with settings and a token of its own."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.serve.browser import NewTab, needs_browser
from tests.serve.published_items import publish, update_search
from tests.serve.server_process import serving
from tests.serve.test_pages_browser import Watched, keep_picture, problems
from tests.unit.cli.command import webmill
from webmill.serve.collection_list import LIST_NAME, distinct_names


@pytest.fixture
def searched(tmp_path: Path) -> list[Path]:
    """Three collections: of news, of books, and one in which nothing is indexed."""
    folders = [tmp_path / name for name in ("news", "books", "empty")]
    publish(folders[0], {f"n{number}": {"title": f"News {number}", "text": "the harbour"} for number in range(30)})
    publish(folders[1], {"b": {"title": "Harbours", "text": "a book of the <b>harbour</b>", "url": "https://b.test/"}})
    for folder in folders[:2]:
        update_search(folder)
    folders[2].mkdir()
    return folders


def test_all_collections_are_searched_in_one_page(searched: list[Path], tmp_path: Path) -> None:
    with serving(searched[0], tmp_path / "errors", *map(str, searched[1:]), "--no-feed"):
        address = re.search(r"listed at (http://127\.0\.0\.1:\d+)/", (tmp_path / "errors").read_text())[1]  # type: ignore[index]
        found = json.loads(urlopen(f"{address}/search.json?q=harbour").read())
        totals = {one["name"]: (one["total"], one["problem"]) for one in found["collections"]}
        assert totals == {"news": (30, ""), "books": (1, ""), "empty": (0, "nothing is indexed")}
        assert [hit["collection"] for hit in found["hits"][:3]] == ["news", "books", "news"]
        assert b"harbour" in urlopen(found["hits"][1]["address"]).read()  # at its own collection
        second = json.loads(urlopen(f"{address}/search.json?q=harbour&page=2").read())["hits"]
        every = [(hit["collection"], hit["id"]) for hit in (*found["hits"], *second)]
        assert len(every) == len(set(every)) == 31
        page = urlopen(f"{address}/search?q=harbour").read().decode()
        assert "<mark>harbour</mark>" in page
        assert "<b>" not in page
        assert "nothing is indexed" in page
        for wrong in ("page=6", "page=x", "mode=guess"):
            with pytest.raises(HTTPError, match="400"):
                urlopen(f"{address}/search?q=a&{wrong}")


@pytest.fixture
def roots(tmp_path: Path, sample_root: Path) -> list[Path]:
    """Two folders of the same name, one with a token and one of before; the second is not listed in the first."""
    first = Path(shutil.copytree(sample_root, tmp_path / "one" / "town"))
    second = tmp_path / "two" / "town"
    assert webmill("init", second, "https://example.org/", "--contact", "me@example.org").code == 0
    file = second / "webmill.toml"
    file.write_text(file.read_text().replace('# token = ""', 'token = "of-the-second"'))
    assert 'token = "of-the-second"' in file.read_text()
    return [first, second]


@contextmanager
def listed(roots: list[Path], errors: Path) -> Iterator[tuple[str, list[dict[str, str]]]]:
    with serving(roots[0], errors, str(roots[1]), "--no-feed"):
        found = re.search(r"listed at (http://127\.0\.0\.1:\d+)/", errors.read_text())
        assert found
        yield found[1], json.loads(urlopen(f"{found[1]}/collections.json").read())["collections"]


def test_each_collection_has_origins_and_a_token_of_its_own(roots: list[Path], tmp_path: Path) -> None:
    with listed(roots, tmp_path / "errors") as (address, found):
        assert [one["name"] for one in found] == ["town", "town-2"]
        origins = [address, *(one[key] for one in found for key in ("address", "replay_address"))]
        assert len(set(origins)) == 5
        assert b"town-2" in urlopen(f"{address}/").read()
        first, second = (one["address"] for one in found)
        assert json.loads(urlopen(f"{first}/collinfo.json").read())[0]["cdx-api"].startswith(first)
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{second}/latest.json")
        assert urlopen(f"{first}/latest.json").status == 200
        for origin, token, status in ((first, "", 403), (second, "", 401), (second, "of-the-second", 400)):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            request = Request(f"{origin}/save", data=b"url=ftp://x/", headers=headers)
            with pytest.raises(HTTPError, match=str(status)):
                urlopen(request)
        for path in ("/c/town/", "/latest.json", "/save", "/../town/latest.json"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"{address}{path}")
        assert str(tmp_path) not in urlopen(f"{address}/collections.json").read().decode()


def test_what_several_collections_cannot_share_is_refused(roots: list[Path]) -> None:
    both = [str(root) for root in roots]
    assert webmill("serve", *both, "--storage", "s3://bucket").code == 2
    for flags in (["--replay-port", "9000"], ["--address", "https://a.org", "--replay-address", "https://b.org"]):
        ended = webmill("serve", *both, *flags)
        assert ended.code == 1, ended.err
    assert "{name}" in ended.err
    assert webmill("serve").code == 2


def test_folders_of_the_same_name_get_distinct_names() -> None:
    paths = [Path(one) for one in ("/a/x", "/b/x", "/c/x-2", "/d/x", f"/e/{LIST_NAME}", "/")]
    names = distinct_names(paths)
    assert len(set(names)) == len(names)
    assert names[:3] == ["x", "x-3", "x-2"]
    assert LIST_NAME not in names


class TestInTheBrowser:
    pytestmark = needs_browser

    @pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
    def test_the_list_leads_to_each(
        self, new_tab: NewTab, roots: list[Path], tmp_path: Path, scheme: str, width: int
    ) -> None:
        with listed(roots, tmp_path / "errors") as (address, found):
            watched = Watched(new_tab(width=width, color_scheme=scheme), address)
            watched.go("/")
            watched.check()
            assert problems(watched.page) == []
            keep_picture(watched.page, f"collections-{scheme}-{width}")
            watched.page.get_by_role("link", name="town-2").click()
            watched.page.get_by_role("heading", name="town").first.wait_for()
            assert watched.page.url == f"{found[1]['address']}/"
