"""The tables of a local frontier's state, version by version. docs/reference/frontier.md explains them."""

from __future__ import annotations

from webmill.infra import sqlite

SCHEMA = sqlite.Schema(
    tag=int.from_bytes(b"WMfr"),
    steps=(
        """
        CREATE TABLE domain (
            id INTEGER PRIMARY KEY,  -- counts up: the order in which they came
            key INTEGER NOT NULL,  -- the first 64 bits of the hash of the name
            name TEXT NOT NULL,
            excluded INTEGER NOT NULL,
            token INTEGER NOT NULL,  -- of the turn that it has, or 0
            next REAL NOT NULL,  -- not to be asked before
            due REAL,  -- when it comes up, if something waits and it has no turn
            again REAL,  -- the same for its revisits, where that is earlier
            retries INTEGER NOT NULL,  -- rows in `retry`
            revisits INTEGER NOT NULL,  -- rows in `visit` with a time to visit again
            lanes TEXT NOT NULL  -- JSON: {priority: [read, end]}, positions in its files
        );
        CREATE INDEX domain_key ON domain (key);
        CREATE INDEX domain_due ON domain (due) WHERE due IS NOT NULL;
        CREATE INDEX domain_again ON domain (again) WHERE again IS NOT NULL;
        CREATE INDEX domain_excluded ON domain (name) WHERE excluded;

        CREATE TABLE turn (
            token INTEGER PRIMARY KEY,
            domain INTEGER NOT NULL,
            until REAL NOT NULL,
            items TEXT NOT NULL  -- JSON: [[url, depth, priority, attempts, place, visit], …] still in hand
        );
        CREATE INDEX turn_until ON turn (until);

        CREATE TABLE retry (
            domain INTEGER NOT NULL,
            priority INTEGER NOT NULL,
            place INTEGER NOT NULL,  -- its position in its lane
            not_before REAL NOT NULL,
            attempts INTEGER NOT NULL,
            depth INTEGER NOT NULL,
            url TEXT NOT NULL,
            PRIMARY KEY (domain, priority, place)
        ) WITHOUT ROWID;
        CREATE INDEX retry_time ON retry (domain, not_before);

        CREATE TABLE visit (
            id INTEGER PRIMARY KEY,
            key INTEGER NOT NULL,  -- the first 64 bits of the hash of the URL
            domain INTEGER NOT NULL,
            priority INTEGER NOT NULL,
            time REAL NOT NULL,
            again REAL,
            attempts INTEGER NOT NULL,  -- of the next visit
            body TEXT NOT NULL  -- JSON: the Visit
        );
        CREATE INDEX visit_key ON visit (key);
        CREATE INDEX visit_time ON visit (time);
        CREATE INDEX visit_again ON visit (domain, priority, again) WHERE again IS NOT NULL;

        CREATE TABLE gate (key TEXT PRIMARY KEY, time REAL NOT NULL) WITHOUT ROWID;
        CREATE TABLE robots (
            origin TEXT PRIMARY KEY,
            fetched REAL NOT NULL,
            expires REAL NOT NULL,
            status INTEGER NOT NULL,
            body BLOB NOT NULL,
            failing_since REAL NOT NULL
        );
        CREATE TABLE note (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE tally (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;

        CREATE TABLE run (number INTEGER PRIMARY KEY, level INTEGER NOT NULL);
        CREATE TABLE journal (number INTEGER PRIMARY KEY, lines BLOB NOT NULL);
        """,
        # Lines have hops as well now, in what were the highest bits of the depth: those that are there have none.
        "ALTER TABLE retry ADD COLUMN hops INTEGER NOT NULL DEFAULT 0; DROP TABLE gate",
        # Page resources have a queue of their own, and a time of their own: `due`, if there were nothing else.
        """
        ALTER TABLE domain ADD COLUMN errand REAL;
        CREATE INDEX domain_errand ON domain (errand) WHERE errand IS NOT NULL;
        """,
        # Domains have a rank. Only those that have one are in these indexes: the others pay nothing for them.
        """
        ALTER TABLE domain ADD COLUMN rank INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX domain_rank ON domain (rank, due) WHERE rank > 0 AND due IS NOT NULL;
        CREATE INDEX domain_rank_again ON domain (rank, again) WHERE rank > 0 AND again IS NOT NULL;
        """,
    ),
)
