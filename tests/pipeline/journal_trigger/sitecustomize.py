"""Let a file of times have the trigger of `crawl_manners.py`, in each Python process that a test starts.

webmill refuses SQLite files with triggers. Python imports this module at its start when PYTHONPATH names its folder.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

MODULE = "webmill.infra.sqlite_untrusted"


def allow(module: ModuleType) -> None:
    """Run triggers, and refuse all but that one."""
    module.DISTRUST[module.apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER] = 1
    module.ACTIVE = module.ACTIVE.replace("'trigger')", "'trigger') AND name != 'keep_journal'")
    module.TABLES += " AND name NOT IN ('reservation_journal', 'keep_journal')"


class AllowWhenImported(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        assert spec
        assert spec.loader
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            allow(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if MODULE in sys.modules:
    allow(sys.modules[MODULE])
else:
    sys.meta_path.insert(0, AllowWhenImported())
