"""SQL over the index of a collection, and over its documents.

    pip install webmill duckdb
    webmill demo --no-serve --keep demo/
    python examples/duckdb_index.py demo/

The index has the columns of Common Crawl's (`url_host_name`, `content_mime_detected`, `warc_record_offset` …): what is
asked here can be asked there, with `s3://commoncrawl/cc-index/table/cc-main/warc/crawl=*/subset=*/*.parquet`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import duckdb

QUESTIONS = {
    "Types of content": """
        select content_mime_detected as type, count(*) as captures, sum(warc_record_length) as bytes
        from captures group by all order by captures desc, type""",
    "The largest captures": """
        select warc_record_length as bytes, url from captures order by all desc limit 3""",
    "Content that was captured again": """
        select count(*) as captures, count(distinct url) as addresses, min(url) as the_first
        from captures group by content_digest having captures > 1 order by all desc limit 5""",
    "Languages by domain": """
        with addresses as (select distinct url, url_host_registered_domain as domain from captures)
        select domain, language, count(*) as documents
        from documents join addresses using (url) group by all order by documents desc, domain, language""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    collection = parser.parse_args().collection
    with duckdb.connect() as database:
        index = collection / "cc-index/table/cc-main/warc/crawl=*/subset=*/*.parquet"
        database.execute(f"create view captures as from read_parquet('{index}', hive_partitioning = true)")
        database.execute(f"create view documents as from {documents_of(collection)}")
        for title, question in QUESTIONS.items():
            print(f"\n{title}")
            answer = database.execute(question)
            print("\t".join(column[0] for column in answer.description))
            for row in answer.fetchall():
                print("\t".join(map(str, row)))


def documents_of(collection: Path) -> str:
    """As `webmill extract` wrote them: Parquet (`--format parquet`), or lines of JSON, which DuckDB reads as well."""
    folder = collection / "documents"
    if any(folder.glob("*.parquet")):
        return f"read_parquet('{folder}/*.parquet')"
    return f"read_json('{folder}/*.jsonl*', union_by_name = true)"


if __name__ == "__main__":
    main()
