"""Plugins: functions of the user's own, called at fixed places (`hooks.py`).

They come from installed packages (entry points of the group `webmill.plugins`), from the user's own folder, and from
files that WEBMILL_PLUGINS names (`sources.py`). Never from a collection: that is data.
"""
