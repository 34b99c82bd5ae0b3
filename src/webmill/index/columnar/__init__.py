"""The columnar index: CDXJ lines as rows of Common Crawl's Parquet table."""
