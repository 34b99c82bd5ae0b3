"""Notice boards: pages that list notices, read again and again and published as versions.

An application on the crawler's parts (fetcher, robots, host schedule) and on publish (docs/reference/board-list.md).
"""
