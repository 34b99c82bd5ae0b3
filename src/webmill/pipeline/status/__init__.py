"""A whole collection at a glance: what each stage has made, what is due, what went wrong.

    seen = look(root, Wishes(...), open_engine=...)

Everything is read and nothing is made: no file, no lock that anybody would meet, no scan of data. The cost has a bound
whatever the size: folders are listed up to a number of files, and what was not counted to its end says so. A part that
is damaged becomes a `Problem`, and the others are told.
"""

from webmill.pipeline.status.collection import (
    describe_unfinished,
    read_collection_status,
    read_crawl_statuses,
    run_wishes,
)
from webmill.pipeline.status.types import CollectionStatus, DueStage, RunWishes, StatusProblem

__all__ = [
    "CollectionStatus",
    "DueStage",
    "RunWishes",
    "StatusProblem",
    "describe_unfinished",
    "read_collection_status",
    "read_crawl_statuses",
    "run_wishes",
]
