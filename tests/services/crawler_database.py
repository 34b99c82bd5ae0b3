"""A database as the old crawler left it: three tables, filled by PostgreSQL itself, with what goes wrong in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg

NOW = 1_700_000_000
EXPIRES = 4_000_000_000
TABLES = """
CREATE TABLE visited_urls (
    url_sha256 TEXT PRIMARY KEY, url TEXT NOT NULL, domain TEXT, crawled_timestamp BIGINT, http_status_code INTEGER,
    content_type TEXT, content_storage_path TEXT, redirected_to_url TEXT
);
CREATE TABLE frontier (
    id BIGSERIAL, url TEXT, domain TEXT, depth INTEGER, added_timestamp BIGINT, priority_score REAL DEFAULT 0
);
CREATE TABLE domain_metadata (
    domain TEXT PRIMARY KEY, last_scheduled_fetch_timestamp BIGINT, robots_txt_content TEXT,
    robots_txt_expires_timestamp BIGINT, is_manually_excluded INTEGER, is_seeded INTEGER
);
"""
FILL = """
INSERT INTO visited_urls (url_sha256, url, crawled_timestamp, http_status_code)
SELECT md5(n::text), 'https://www.d' || n % %(domains)s || '.org/v/' || n, %(now)s + n / 7,
    CASE n % 50 WHEN 0 THEN 901 WHEN 1 THEN NULL ELSE 200 END
FROM generate_series(1, %(visited)s) n;
INSERT INTO frontier (url, domain, depth, added_timestamp)
SELECT 'https://www.d' || n % %(domains)s || '.org/w/' || n, 'd' || n % %(domains)s || '.org', n % 9, %(now)s + n
FROM generate_series(1, %(waiting)s) n;
INSERT INTO domain_metadata
SELECT 'd' || n || '.org', CASE WHEN n % 100 = 3 THEN %(expires)s ELSE %(now)s END,
    CASE WHEN n % 10 = 1 THEN E'User-agent: *\\nDisallow: /no/' || n ELSE '' END, %(expires)s, (n % 100 = 2)::int, 0
FROM generate_series(0, %(domains)s - 1) n;
"""
# Rows that are no URL, that were visited as well, that stand there twice, that say nothing.
ODD = """
INSERT INTO frontier (url, domain, depth, added_timestamp) VALUES
    ('ftp://d1.org/file', 'd1.org', 1, 5), ('nonsense', 'd1.org', 1, NULL), (NULL, NULL, NULL, NULL),
    ('https://d1.org/' || repeat('x', 9000), 'd1.org', 1, 5), ('https://d1.org/deep', 'd1.org', -1, 5),
    ('https://www.d1.org/v/1', 'd1.org', 1, 6),
    ('https://d2.org/twice', 'd2.org', 1, 7), ('https://d2.org/twice', 'd2.org', 1, 7),
    ('https://d2.org/ünïcode|pipe', 'd2.org', NULL, 8);
INSERT INTO visited_urls (url_sha256, url, crawled_timestamp) VALUES ('x', 'not a url', 1);
INSERT INTO domain_metadata (domain, is_manually_excluded) VALUES ('co.uk', 1), ('alone.net', 1);
"""
ODD_WAITING, ODD_KNOWN, ODD_REJECTED = 2, 2, {"bad_depth": 1, "bad_host": 2, "scheme": 1, "url_too_long": 1}


@contextmanager
def crawler_database(server: str, name: str, *, waiting: int, visited: int, domains: int) -> Iterator[str]:
    """The URL of a new database of that size, with the odd rows on top."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        admin.execute(f'CREATE DATABASE "{name}"')
        url = urlsplit(server)._replace(path=f"/{name}").geturl()
        try:
            with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as database:
                values = {"waiting": waiting, "visited": visited, "domains": domains, "now": NOW, "expires": EXPIRES}
                database.execute("SET synchronous_commit = off")
                database.execute(TABLES)
                database.execute(FILL.replace("n % ", "n %% "), values)
                database.execute(ODD)
            yield url
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
