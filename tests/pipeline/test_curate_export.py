"""A corpus as a data set: what others load, what the manifest says, what changed since the version before."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest
import zstandard
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from pyarrow import parquet
from tokenizers import Tokenizer, decoders

from tests.pipeline.corpora import (
    LOAD,
    curate,
    decisions,
    document,
    files_of,
    made_documents,
    run_python,
    write_documents,
)
from tests.unit.cli.command import webmill
from tests.unit.curate.test_models import trained_tokenizer
from webmill.curate.manifest import find_flaws, read_manifest
from webmill.errors import Conflict, Misconfigured
from webmill.model import Document
from webmill.pipeline.curate.export import CorpusExport, ExportOptions, export_corpus
from webmill.pipeline.curate.kept import corpus
from webmill.pipeline.progress import progress_to


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "news"
    write_documents(root, made_documents(150))
    curate(root)
    return root


def export(root: Path, out: Path, **options: Any) -> CorpusExport:
    return export_corpus(root, out, ExportOptions(**options), progress=progress_to(None))


def rows_of(out: Path) -> list[dict[str, Any]]:
    manifest = read_manifest(out)
    return [row for file in manifest.data for row in parquet.read_table(out / file.path).to_pylist()]


def test_others_load_it_in_one_line(tmp_path: Path) -> None:
    root, out = tmp_path / "news", tmp_path / "data set"
    write_documents(root, large_documents(60), files=2)
    curate(root, [{"use": "length", "min_chars": 60_000}])
    done = export(root, out, shard_bytes=1 << 20)
    groups = [parquet.read_metadata(out / file.path).num_row_groups for file in done.manifest.data]
    assert len(groups) > 1  # files, each of several megabytes of text in several groups of rows
    assert min(groups[:-1]) > 1
    kept = [id_ for id_, one in decisions(root).items() if one[0]]
    assert 60 > done.manifest.documents == len(kept) > 40
    loaded = json.loads(run_python(LOAD, str(out), str(tmp_path / "cache")))
    assert loaded == {"rows": len(kept), "first": kept[0]}
    chars = sum(len(one.text or "") for one in corpus(root))
    files = [str(out / file.path) for file in done.manifest.data]
    counted = duckdb.sql(f"SELECT count(*), sum(length(text)) FROM read_parquet({files})").fetchall()
    assert counted == [(len(kept), chars)]
    assert polars.read_parquet(files).select(polars.col("text").str.len_chars().sum()).item() == chars
    assert [row["id"] for row in rows_of(out)] == kept


def large_documents(count: int) -> list[Document]:
    """Return documents of about 100,000 characters that compress little."""
    drawn = random.Random(3)
    lengths = [drawn.randint(5_000, 20_000) for _ in range(count)]
    return [
        document(number, " ".join(drawn.randbytes(5).hex() for _ in range(size))) for number, size in enumerate(lengths)
    ]


def test_token_ids_are_those_of_the_texts(root: Path, tmp_path: Path) -> None:
    tokenizer = trained_tokenizer(tmp_path / "tokenizer.json")
    ended = webmill("curate", "export", root, "--tokens", tmp_path / "ids", "--tokenizer", tokenizer)
    assert ended.code == 0, ended.err
    rows, texts = rows_of(tmp_path / "ids"), [one.text or "" for one in corpus(root)]
    decoder = decoders.ByteLevel()
    read = Tokenizer.from_file(str(tokenizer))
    read.decoder = decoder
    assert [read.decode(row["input_ids"]).removeprefix(" ") for row in rows] == texts
    assert [row["id"] for row in rows] == [one.id for one in corpus(root)]
    assert webmill("verify-export", tmp_path / "ids").code == 0
    assert read_manifest(tmp_path / "ids").tokenizer == hashlib.sha256(tokenizer.read_bytes()).hexdigest()


def test_the_texts_are_those_that_the_steps_left(tmp_path: Path) -> None:
    text = "A line that is whole and stays here.\nWe use cookies.\nWrite to me@example.org please, or do not."
    repeated = "This line is in both documents, word for word."
    write_documents(
        tmp_path, [document(0, f"{text}\n{repeated}"), document(1, f"Something else entirely here.\n{repeated}")]
    )
    curate(
        tmp_path,
        [
            {"use": "lines", "terminal_punctuation": False},
            {"use": "pii"},
            {"use": "repeated-lines", "max_removed": None},
        ],
    )
    first, second = list(corpus(tmp_path))
    assert first.text == (f"A line that is whole and stays here.\nWrite to <EMAIL> please, or do not.\n{repeated}")
    assert (second.text, second.text_chars) == ("Something else entirely here.", 29)
    assert first.url == "https://host-0.example.org/0"


def test_an_export_is_the_same_bytes_and_a_second_one_changes_nothing(root: Path, tmp_path: Path) -> None:
    one, other = export(root, tmp_path / "one", name="x"), export(root, tmp_path / "other", name="x")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "other")
    again = export(root, tmp_path / "one", name="x")
    assert (again.new, again.unchanged, again.manifest) == (0, len(one.manifest.data), other.manifest)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "other")


def test_a_new_version_says_what_was_added_changed_and_removed(tmp_path: Path) -> None:
    root, out = tmp_path / "news", tmp_path / "out"
    texts = [
        f"The text of page {number} says enough to be kept, and is like no other: {number * 71}." for number in range(6)
    ]
    write_documents(root, [document(number, text) for number, text in enumerate(texts)])
    steps = [{"use": "length", "min_chars": 10}]
    curate(root, steps)
    first = export(root, out).manifest
    assert first.changes is None
    after = [document(number, text) for number, text in enumerate([*texts[:4], "Another text on page four."])]
    write_documents(root, [*after, document(9, "A new page, with a text of its own.")])
    curate(root, steps)
    second = export(root, out).manifest
    assert second.changes
    assert (second.changes.before, second.changes.added, second.changes.changed) == (first.version, 1, 1)
    changes = out / "changes" / second.version
    urls = {
        name: parquet.read_table(changes / f"{name}.parquet").column("url").to_pylist()
        for name in ("added", "changed", "removed")
    }
    assert urls == {
        "added": ["https://host-2.example.org/9"],
        "changed": ["https://host-4.example.org/4"],
        "removed": ["https://host-5.example.org/5"],
    }
    assert not list(find_flaws(out, second))
    (out / "changes" / "0123456789ab").mkdir()  # of an export that was killed, before the documents changed again
    assert export(root, out).manifest == second
    assert [path.name for path in (out / "changes").iterdir()] == [second.version]
    assert {path.name for path in (out / "data").glob("*.parquet")} == {Path(one.path).name for one in second.data}


def test_shards_have_their_size_and_what_did_not_change_stays(tmp_path: Path) -> None:
    root, out = tmp_path / "news", tmp_path / "out"
    texts = ["".join(f"{number}{place * 7919 % 104729} words " for place in range(4000)) for number in range(24)]
    documents = [document(number, text) for number, text in enumerate(texts)]
    write_documents(root, documents, files=1)
    curate(root, [{"use": "length"}])
    first = export(root, out, shard_bytes=1 << 16)
    assert len(first.manifest.data) > 1
    write_documents(root, [*documents[:-1], document(99, texts[-1] + "more")], files=1)
    curate(root, [{"use": "length"}])
    second = export(root, out, shard_bytes=1 << 16)
    assert second.unchanged == len(first.manifest.data) - 1
    assert (second.new, second.removed) == (1, 1)


def test_verify_finds_what_is_not_as_it_was(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = export(root, out).manifest
    assert webmill("verify-export", out).code == 0
    shard = out / manifest.data[0].path
    data = shard.read_bytes()
    for damaged, words in (
        (data[:-1], "bytes instead of"),
        (data[:-1] + b"x", "SHA-256 differs"),
        (None, "is missing"),
    ):
        shard.write_bytes(damaged) if damaged else shard.unlink()
        ended = webmill("verify-export", out)
        assert ended.code == 3
        assert words in ended.err


def test_a_signature_holds_for_its_key_alone(root: Path, tmp_path: Path) -> None:
    keys = [ed25519.Ed25519PrivateKey.generate() for _ in range(2)]
    for number, key in enumerate(keys):
        (tmp_path / f"private-{number}.pem").write_bytes(private_pem(key))
        (tmp_path / f"public-{number}.pem").write_bytes(public_pem(key))
    out = tmp_path / "out"
    export(root, out, sign=tmp_path / "private-0.pem")
    assert "the signature is right" in webmill("verify-export", out, "--key", tmp_path / "public-0.pem").err
    assert "not by this key" in webmill("verify-export", out, "--key", tmp_path / "public-1.pem").err
    stated = (out / "manifest.json").read_text()
    (out / "manifest.json").write_text(stated.replace('"documents"', '"documents" ', 1))
    assert webmill("verify-export", out, "--key", tmp_path / "public-0.pem").code == 0  # what it says is the same
    (out / "manifest.json").write_text(stated.replace('"name": "out"', '"name": "ouch"'))
    assert "not by this key" in webmill("verify-export", out, "--key", tmp_path / "public-0.pem").err
    (tmp_path / "no.pem").write_text("nothing")
    with pytest.raises(Misconfigured, match="not a key in PEM"):
        export(root, out, sign=tmp_path / "no.pem")


def private_pem(key: ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_pem(key: ed25519.Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def test_json_lines_and_webdataset_have_the_same_documents(root: Path, tmp_path: Path) -> None:
    expected = [one.text for one in corpus(root)]
    lines = export(root, tmp_path / "lines", format="jsonl").manifest
    assert [json.loads(line)["text"] for line in json_lines(tmp_path / "lines" / lines.data[0].path)] == expected
    tars = export(root, tmp_path / "tars", format="webdataset").manifest
    with tarfile.open(tmp_path / "tars" / tars.data[0].path) as tar:
        texts = [tar.extractfile(one).read().decode() for one in tar if one.name.endswith(".txt")]  # type: ignore[union-attr]
        names = tar.getnames()
    assert texts == expected
    assert names[:2] == ["000000000000.json", "000000000000.txt"]


def json_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file))


def test_documents_that_changed_since_the_run_are_not_exported(root: Path, tmp_path: Path) -> None:
    write_documents(root, made_documents(60, seed=1))
    with pytest.raises(Conflict, match="curate run"):
        export(root, tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_folder_of_somebody_else_is_left_alone(root: Path, tmp_path: Path) -> None:
    data = tmp_path / "out" / "data"
    data.mkdir(parents=True)
    (data / "thesis.parquet").write_bytes(gzip.compress(b"mine"))
    with pytest.raises(Misconfigured, match="not made by webmill"):
        export(root, tmp_path / "out")


def test_the_card_says_what_the_corpus_is_and_takes_no_markup_from_the_web(tmp_path: Path) -> None:
    root = tmp_path / "news"
    write_documents(root, [document(0, "Some text that is kept.", url="https://[x](javascript:alert).example/<b>")])
    curate(root, [{"use": "length"}])
    ended = webmill(
        "curate", "export", root, "--hf", tmp_path / "out", "--license", "cc-by-4.0", "--name", 'My "corpus"'
    )
    assert ended.code == 0, ended.err
    card = (tmp_path / "out" / "README.md").read_text()
    assert "license: cc-by-4.0" in card
    assert "](javascript" not in card
    assert "<b>" not in card
    assert webmill("curate", "export", root, "--hf", tmp_path / "out", "--license", "a: b").code == 1
    assert webmill("curate", "export", root).code == 2
    assert webmill("curate", "export", root, "--tokens", tmp_path / "ids").code == 1
