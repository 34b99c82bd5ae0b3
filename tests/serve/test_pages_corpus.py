"""/corpus: what was removed and why, in numbers and examples; nothing of a stranger's is markup."""

from __future__ import annotations

from pathlib import Path

from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from tests.pipeline.corpora import curate, document, write_documents
from tests.serve.conftest import ADDRESS, site_of
from webmill.serve.app import application
from webmill.settings import Settings


def shown(root: Path) -> LexborHTMLParser:
    with TestClient(application(site_of(root, Settings())), base_url=ADDRESS) as client:
        answer = client.get("/corpus")
    assert answer.status_code == 200
    return LexborHTMLParser(answer.text)


def test_the_page_shows_each_step_with_its_reasons_and_examples(tmp_path: Path) -> None:
    texts = [
        "A text that is long enough to be kept, as it is.",
        "short",
        "A text that is long enough to be kept, as it is.",
    ]
    documents = [document(number, text) for number, text in enumerate(texts)]
    write_documents(tmp_path, [*documents, document(9, "tiny", url="https://example.org/<script>x</script>")])
    curate(tmp_path, [{"use": "length", "min_chars": 20}, {"use": "exact"}])
    page = shown(tmp_path)
    rows = [
        [cell.text().strip() for cell in row.css("th, td")]
        for row in page.css("section[aria-labelledby=steps] tbody tr")
    ]
    assert [row[:4] for row in rows] == [["input", "4", "0", "4"], ["length", "4", "2", "2"], ["exact", "2", "1", "1"]]
    assert "too_few_chars: 2" in rows[1][4]
    assert "https://example.org/<script>x</script> (4)" in rows[1][4]
    assert not page.css("td script")
    assert "Languages: after" in page.text()


def test_without_a_corpus_the_page_says_what_makes_one(tmp_path: Path) -> None:
    assert "webmill curate run" in shown(tmp_path).css_first("pre.command").text()
