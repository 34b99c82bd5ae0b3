"""The mapper of the examples: in plain Python, in Spark (`local[2]`) and in Dask, with the same result."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pytest

from tests.pipeline.corpora import curate, write_documents
from tests.pipeline.test_curate_export import large_documents
from tests.serve.sample_collection import SCRIPT, ascii_url, visits
from tests.unit.cli.command import webmill
from webmill.pipeline.curate.export import ExportOptions, export_corpus
from webmill.pipeline.curate.kept import corpus
from webmill.pipeline.progress import progress_to

ROOT = Path(__file__).parents[2]
SPARK = ROOT / ".venv-spark" / "bin" / "python"
needs_spark = pytest.mark.skipif(
    not SPARK.exists(), reason="`make spark` makes the environment that has Spark and Dask"
)


def run(python: str | Path, script: str, collection: Path) -> list[str]:
    environment = {**os.environ, "PYTHONUTF8": "1", "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)}
    command = [str(python), str(ROOT / "examples" / script), str(collection)]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def pages_by_host() -> dict[str, int]:
    answered = (one for one in visits() if one.status == 200 and b"<title>" in one.body and not one.same)
    return Counter(urlsplit(ascii_url(one.url)).hostname or "" for one in answered if SCRIPT.encode() not in one.body)


def test_the_mapper_runs_in_plain_python(sample_root: Path) -> None:
    rows = [line.split("\t") for line in run(sys.executable, "mapper.py", sample_root)]
    assert {host: int(pages) for host, pages, _ in rows} == pages_by_host()
    assert all(int(words) > 0 for _, _, words in rows)


@needs_spark
@pytest.mark.slow
def test_spark_and_dask_make_the_same_rows(sample_root: Path, tmp_path: Path) -> None:
    collection = tmp_path / "town"
    shutil.copytree(sample_root, collection)
    assert webmill("extract", collection, "--format", "parquet", "--from-scratch").code in (0, 3)
    plain = run(sys.executable, "mapper.py", collection)
    assert run(SPARK, "dask_job.py", collection) == plain
    spark = run(SPARK, "spark_job.py", collection)
    assert spark[: len(plain)] == plain
    languages = duckdb.sql(
        f"select language, count(*) from '{collection}/documents/*.parquet' where outcome = 'ok' "
        "group by all order by language nulls first"
    ).fetchall()
    assert spark[len(plain) :] == [f"{language}\t{count} documents" for language, count in languages]


READ_EXPORT = """
import json, sys
from pyspark.sql import SparkSession, functions

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
documents = spark.read.parquet(sys.argv[1] + "/data")
row = documents.agg(functions.count("*"), functions.sum(functions.length("text")), functions.min("date")).first()
print(json.dumps([row[0], row[1], row[2] is not None]))
"""


@needs_spark
@pytest.mark.slow
def test_spark_reads_an_export(tmp_path: Path) -> None:
    root, out = tmp_path / "news", tmp_path / "out"
    write_documents(root, large_documents(40))
    curate(root, [{"use": "length", "min_chars": 60_000}])
    export_corpus(root, out, ExportOptions(shard_bytes=1 << 20), progress=progress_to(None))
    (tmp_path / "read.py").write_text(READ_EXPORT)
    rows, chars, dated = json.loads(run(SPARK, str(tmp_path / "read.py"), out)[-1])
    texts = [one.text or "" for one in corpus(root)]
    assert (rows, chars, dated) == (len(texts), sum(map(len, texts)), True)
