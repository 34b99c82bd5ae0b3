"""The vectors follow the versions: what is published is embedded once, whatever kills it, and found by its meaning."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.matrix import record, seed
from tests.pipeline.test_search_feed import check, publish, weigh
from tests.sentence_models import MEANINGS, write_encoder, write_static_model
from tests.unit.cli.command import webmill
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.search.engines import open_engine
from webmill.search.fields import content_of
from webmill.search.meaning.vector_file import map_rows, sound_documents
from webmill.search.meaning.vector_store import VectorReader, vector_files
from webmill.settings import SearchSettings

KILLS = int(os.environ.get("WEBMILL_TEST_KILLS", "3"))
TEXTS = {line.split()[0]: f"Something of {line}." for line in MEANINGS}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_static_model(tmp_path / "c" / "model")
    (tmp_path / "c" / "webmill.toml").write_text('[search]\nmodel = "model"\n')
    publish(LocalStorage(tmp_path / "c"), TEXTS)
    return tmp_path / "c"


def store(root: Path) -> Path:
    [folder] = (root / "meaning").iterdir()
    return folder


def embedded(root: Path) -> Counter[bytes]:
    """Count how often each content lies in the store."""
    reader = VectorReader(store(root))
    reader.verify()
    return Counter(key for rows in reader.files for key, _ in sound_documents(rows))


def published(root: Path) -> set[bytes]:
    with closing(open_engine(root, SearchSettings(model="model"), create=False)) as engine:
        check(LocalStorage(root), engine)
        return {bytes.fromhex(content_of(revision.rpartition(".")[0])) for _, revision in list(engine.keys())}


def test_a_meaning_is_found_by_the_command(root: Path) -> None:
    first = webmill("search", root, "vehicle", "--mode", "both")
    assert first.code == 1
    assert "webmill search update" in first.err
    assert webmill("search", "update", root).code == 0
    hits = json.loads(webmill("search", root, "kittens", "feline", "--mode", "meaning", "--json").out)["hits"]
    assert (hits[0]["id"], hits[0]["matched"]) == ("cat", "meaning")
    assert "0 documents" in webmill("search", root, "kittens", "physician").err
    assert webmill("search", root, "physician", "--mode", "both").out.decode().startswith("1. Title doctor")


def test_only_what_is_new_is_embedded_and_what_is_gone_goes(root: Path) -> None:
    webmill("search", "update", root)
    before = embedded(root)
    assert set(before) == published(root)
    first = [path.read_bytes() for path in vector_files(store(root))]
    publish(LocalStorage(root), {**TEXTS, "cat": "A kitten.", "new": "The bank."})
    assert webmill("search", "update", root).code == 0
    assert embedded(root) == before + Counter(published(root) - set(before))
    assert [path.read_bytes() for path in vector_files(store(root))][: len(first)] == first
    webmill("search", "rebuild", root)  # from the vectors that are there
    assert embedded(root) == before + Counter(published(root) - set(before))
    assert webmill("publish", "gc", root, "--keep", "1", "--grace", "0h").code == 0
    assert webmill("search", "check", root).code == 0
    assert set(embedded(root)) == published(root)


def test_an_index_of_words_alone_gets_its_vectors_by_the_next_update(root: Path) -> None:
    settings = (root / "webmill.toml").read_text()
    (root / "webmill.toml").unlink()
    webmill("search", "update", root)
    assert not (root / "meaning").exists()
    assert "model" in webmill("search", root, "cat", "--mode", "both").err
    (root / "webmill.toml").write_text(settings)
    assert "run webmill search update" in webmill("search", root, "cat").err
    assert webmill("search", "update", root).code == 0
    assert set(embedded(root)) == published(root)
    assert "run webmill search update" not in webmill("search", root, "cat").err


def test_another_model_makes_vectors_of_its_own(root: Path) -> None:
    webmill("search", "update", root)
    write_encoder(root / "other", seed=5)
    assert webmill("search", "update", root, "--model", root / "other").code == 0
    assert len(list((root / "meaning").iterdir())) == 2
    found = webmill("search", root, "vehicle", "--mode", "meaning", "--model", root / "other")
    assert found.out.decode().startswith("1. Title car")


@pytest.mark.parametrize("harm", ["deleted", "changed", "cut"])
def test_lost_and_damaged_vectors_are_noticed_and_made_again(root: Path, harm: str) -> None:
    webmill("search", "update", root)
    [file] = vector_files(store(root))
    data = file.read_bytes()
    if harm == "deleted":
        for path in store(root).iterdir():
            path.unlink()
    else:
        file.write_bytes(data[:-3] if harm == "cut" else data[:50] + bytes([data[50] ^ 1]) + data[51:])
    found = webmill("search", root, "vehicle", "--mode", "meaning")
    if harm == "deleted":
        assert "nothing was embedded" in found.err
    else:
        assert "webmill search" in found.err
        doctor = webmill("doctor", root, "--read-data")
        assert str(file.name) in doctor.out.decode()
    assert webmill("search", "check", root).code == 0
    assert embedded(root) == Counter(published(root))
    assert webmill("search", root, "vehicle", "--mode", "meaning").out.decode().startswith("1. Title car")


@pytest.mark.slow
@pytest.mark.crash
def test_killed_while_embedding_nothing_is_lost_and_nothing_embedded_twice(root: Path) -> None:
    dice = random.Random(seed(5))
    texts = {f"d{number:05}": f"river {number} " * 400 for number in range(600)}
    command = [sys.executable, "-m", "webmill", "-q", "search", "update", str(root)]
    publish(LocalStorage(root), texts)
    kept = Counter[bytes]()
    kills = 0
    for turn in range(20 * KILLS):
        for _ in range(200):
            texts[f"d{dice.randrange(800):05}"] = f"river {turn} {dice.random()} " * 400
        publish(LocalStorage(root), texts)
        victim = subprocess.Popen(command, start_new_session=True)
        deadline, size = time.monotonic() + 60, stored_bytes(root)
        while victim.poll() is None and time.monotonic() < deadline:  # until it has embedded something more
            if stored_bytes(root) > size + dice.randrange(200_000):
                os.killpg(victim.pid, signal.SIGKILL)
                break
            time.sleep(0.002)
        kills += victim.wait() == -signal.SIGKILL
        found = whole_documents(root)
        assert not kept - found, "what was embedded once is kept"
        assert max(found.values()) == 1, "nothing is embedded twice"
        kept = found
        if kills == KILLS:
            break
    assert kills == KILLS
    subprocess.run(command, check=True)
    assert max(whole_documents(root).values()) == 1
    with closing(open_engine(root, SearchSettings(model="model"), create=False)) as engine:
        record("search by meaning", "kill -9 while embedding", injected=kills, **weigh(LocalStorage(root), engine))
    assert published(root) <= set(embedded(root))


def stored_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.glob("meaning/*/*.vectors"))


def whole_documents(root: Path) -> Counter[bytes]:
    return Counter(key for path in root.glob("meaning/*/*.vectors") for key, _ in sound_documents(map_rows(path, 16)))
