"""Choose captures by SQL over the columnar index, for what the flags of `webmill cc run` cannot say.

    pip install 'webmill[text,parquet]' duckdb
    webmill demo --no-serve --keep demo/
    python examples/choose_with_sql.py demo/ "warc_record_length < 2000" | webmill cdxj sort | webmill cdxj zipnum -o chosen/
    webmill cc run --cluster-idx chosen/ --base-url demo/ -o documents/

Prints the chosen captures as lines of an index (CDXJ). Of them a small index is made, and that is asked in place of the
crawl's. Common Crawl's own: s3://commoncrawl/ --crawl CC-MAIN-2024-30, from within AWS.
"""  # noqa: E501 - a line that can be copied

from __future__ import annotations

import argparse
import json

import duckdb

FIELDS = {  # of a line, and the column that has it
    "url": "url",
    "mime": "content_mime_type",
    "mime-detected": "content_mime_detected",
    "status": "fetch_status",
    "digest": "content_digest",
    "length": "warc_record_length",
    "offset": "warc_record_offset",
    "filename": "warc_filename",
    "charset": "content_charset",
    "languages": "content_languages",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", help="a folder or s3://…")
    parser.add_argument("where", help="a condition in SQL over the columns of the index")
    parser.add_argument("--crawl", default="*", help="its name, if there are several")
    asked = parser.parse_args()
    table = f"{asked.place.rstrip('/')}/cc-index/table/cc-main/warc/crawl={asked.crawl}/subset=warc/*.parquet"
    with duckdb.connect() as database:
        database.execute("set TimeZone = 'UTC'")
        chosen = database.execute(
            f"select url_surtkey, strftime(fetch_time, '%Y%m%d%H%M%S'), {', '.join(FIELDS.values())} "
            f"from read_parquet('{table}', hive_partitioning = true) where {asked.where}"
        )
        while rows := chosen.fetchmany(10_000):
            for key, timestamp, *values in rows:
                known = {name: str(value) for name, value in zip(FIELDS, values, strict=True) if value is not None}
                print(key, timestamp, json.dumps(known))


if __name__ == "__main__":
    main()
