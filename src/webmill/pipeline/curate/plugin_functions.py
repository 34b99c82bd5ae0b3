"""Filters that plugins of the user have, for the steps of recipes that name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from webmill.curate.filters.models import PLUGIN, PythonFilter
from webmill.curate.recipe import CurateRecipe
from webmill.errors import Misconfigured
from webmill.infra.custom_function import CustomFunction, read_function
from webmill.infra.plugins.sources import PluginSource
from webmill.pipeline.plugins import user_plugins


def with_plugin_functions(recipe: CurateRecipe) -> CurateRecipe:
    """Return a recipe whose steps have the functions that they name as `plugin:NAME`, as code that travels."""
    steps = tuple(
        msgspec.structs.replace(step, code=_filter_code(step.function.removeprefix(PLUGIN)))
        if isinstance(step, PythonFilter) and step.function.startswith(PLUGIN)
        else step
        for step in recipe.steps
    )
    return msgspec.structs.replace(recipe, steps=steps)


def _filter_code(name: str) -> CustomFunction:
    plugins = user_plugins()
    places = {one.name: one for one in plugins.sources}
    for call in plugins.calls("curate_filter"):
        if function := (call() or {}).get(name):
            return _code_of(function, places[call.plugin])
    raise Misconfigured(f"no plugin has a filter {name!r}: `webmill plugins` lists what there is")


def _code_of(function: Callable[..., Any], source: PluginSource) -> CustomFunction:
    """Return a function of a plugin as every worker can load it: by its name in its module."""
    own = function.__name__
    if not own.isidentifier() or function.__qualname__ != own:
        raise Misconfigured(f"the plugin {source.name}: {function.__qualname__} is no function of its module")
    place = source.place if source.is_file else source.place.partition(":")[0]
    return read_function(f"{place}:{own}")
