"""The names that settings had before `webmill.settings`."""

from webmill.settings import (
    FILE_NAME,
    SECTIONS,
    Settings,
    every_setting,
    load,
)
from webmill.settings import (
    CommonCrawlSettings as CommonCrawl,
)
from webmill.settings import (
    ExecutorSettings as Executor,
)
from webmill.settings import (
    HttpSettings as Http,
)
from webmill.settings import (
    QueueSettings as Queue,
)
from webmill.settings import (
    SearchSettings as Search,
)
from webmill.settings import (
    ServeSettings as Serve,
)

__all__ = [
    "FILE_NAME",
    "SECTIONS",
    "CommonCrawl",
    "Executor",
    "Http",
    "Queue",
    "Search",
    "Serve",
    "Settings",
    "every_setting",
    "load",
]
