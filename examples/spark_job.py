"""Spark over a collection: the mapper of mapper.py over WARC files, and SQL over documents in Parquet.

    pip install pyspark 'webmill[parquet]'   # and Java 17 or newer: apt install default-jre-headless
    webmill demo --no-serve --keep demo/
    webmill extract demo/ --format parquet --from-scratch
    python examples/spark_job.py demo/                                       # local[2]
    python examples/spark_job.py demo/ --master spark://HOST:7077

On a cluster webmill must be installed on the workers, and all of them must reach the collection.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mapper import COLUMNS, archives, map_archive
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def pages(spark: SparkSession, collection: Path) -> DataFrame:
    """A row for each page: every WARC file is one task."""
    files = archives(collection)
    rows = spark.sparkContext.parallelize(files, max(1, len(files))).flatMap(map_archive)
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    return spark.createDataFrame(rows.map(lambda row: tuple(row[name] for name in COLUMNS)), schema)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    parser.add_argument("--master", default="local[2]")
    asked = parser.parse_args()
    spark = (
        SparkSession.builder.master(asked.master).appName("webmill").config("spark.ui.enabled", "false").getOrCreate()
    )
    spark.sparkContext.addPyFile(str(Path(__file__).with_name("mapper.py")))
    hosts = (
        pages(spark, asked.collection).groupBy("host").agg(f.count("*").alias("pages"), f.sum("words").alias("words"))
    )
    for row in hosts.orderBy("host").collect():
        print(f"{row.host}\t{row.pages}\t{row.words}")
    documents = spark.read.parquet(str(asked.collection.resolve() / "documents" / "*.parquet"))
    for row in documents.where("outcome = 'ok'").groupBy("language").count().orderBy("language").collect():
        print(f"{row.language}\t{row['count']} documents")
    spark.stop()


if __name__ == "__main__":
    main()
