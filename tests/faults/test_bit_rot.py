"""Every kind of file of a whole collection is flipped, cut and deleted, and every command reads it: the same answer, or
an error that names the file. `make test` tries one of each kind of file, `make soak` all, thousands of times.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.bit_rot import (
    READERS,
    Answers,
    Mutation,
    choose_mutations,
    files_of,
    index_again,
    make_collection,
    one_of_each_kind,
    publish_again,
    remove_checksums,
    update_search,
)
from tests.faults.matrix import BIT_ROT, record, seed
from tests.thoroughness import WHOLE, kills
from webmill.infra.sqlite_checksums import has_checksums
from webmill.testing import TestWeb

pytestmark = [pytest.mark.slow, pytest.mark.crash, pytest.mark.xdist_group("bit rot")]
SHORT = 80  # mutations of the short form
FAULT = "a bit flipped, cut short, deleted"


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="webmill-test-bit-rot-", dir=memory if memory.is_dir() else None))
    with pytest.MonkeyPatch.context() as patch, TestWeb(hosts=2, pages_per_host=3, seed=3) as web:
        patch.setenv("WEBMILL_EXECUTOR_URL", "inline")
        make_collection(folder / "full", web, pages=6, rounds=2)
        yield folder / "full"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def answers(root: Path) -> Answers:
    return Answers(root)


@pytest.mark.timeout(10_000)  # every command reads each mutation: an hour on a busy machine
def test_no_mutation_of_a_file_goes_unseen(root: Path, answers: Answers) -> None:
    paths = files_of(root) if WHOLE else one_of_each_kind(files_of(root))
    flips = min(24, kills(24)) if WHOLE else 1
    mutations = choose_mutations(root, paths, flips=flips, cuts=max(1, flips // 4), seed=seed(5))
    if not WHOLE:
        mutations = random.Random(seed(6)).sample(mutations, SHORT)
    unseen = [fault for mutation in mutations for fault in answers.differences(mutation, all_readers=WHOLE)]
    record(BIT_ROT, FAULT, injected=len(mutations), acknowledged=len(mutations), lost=len(unseen))
    assert not unseen, "\n".join(unseen[:20])


def test_a_collection_of_before_is_read_and_gets_its_checksums(root: Path, answers: Answers, tmp_path: Path) -> None:
    """An earlier webmill wrote no checksums. And without them a flipped bit is another answer: the negative control."""
    before = Path(shutil.copytree(root, tmp_path / "full"))
    remove_checksums(before)
    for name in ("captures", "flatten", "documents", "search", "publish list", "publish items", "waiting", "visited"):
        assert READERS[name](before) == answers.whole[name], name
    seeds = before / "frontier" / "seeds.txt"
    silent = Answers(before, readers=["crawl"])
    bit = 8 * seeds.read_bytes().index(b"mill")
    unseen = list(silent.differences(Mutation("flip", "frontier/seeds.txt", bit), all_readers=True))
    record(BIT_ROT, FAULT, injected=1, acknowledged=1, lost=len(unseen), control=True)
    assert unseen
    for name, again in {"flatten": index_again, "publish items": publish_again}.items():
        again(before)
        assert READERS[name](before) == answers.whole[name], name
    update_search(before)
    assert has_checksums(before / "cdxj" / "state.sqlite")
    assert (before / "cc-index/collections/FULL/indexes/cluster.idx.crc32").exists()
