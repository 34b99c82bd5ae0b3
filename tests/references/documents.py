"""Which how-to shows the claims of which document."""

DOCUMENTS: dict[str, str] = {
    "test_000_pipeline": "from-commoncrawl-pipeline.md",
    "test_001_cdxj_tools": "from-replay-cdxj-indexing-tools.md",
    "test_002_letsdata": "from-letsdata-common-crawl.md",
    "test_003_frontier": "from-a-redis-frontier-crawler.md",
    "test_004_uring": "from-uring-crawler.md",
}
