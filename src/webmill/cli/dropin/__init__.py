"""`webmill dropin`: commands of other systems by their old names, flags and output.

For existing scripts. Twelve are of replay-cdxj-indexing-tools, thin wrappers of `webmill cdxj` and `webmill index`; two
are of commoncrawl-pipeline, of `webmill cc`, and one is letsdata's, of `webmill dataset`. Where they differ from the
originals, docs/how-to/from-*.md say how and why.
"""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

OLD_NAMES = {
    "merge-flat-cdxj": ("webmill.cli.dropin.lines:merge", "webmill cdxj merge"),
    "filter-blocklist": ("webmill.cli.dropin.filters:blocklist", "webmill cdxj block"),
    "filter-excessive-urls": ("webmill.cli.dropin.filters:excessive", "webmill cdxj excessive"),
    "addfield-to-flat-cdxj": ("webmill.cli.dropin.lines:add_field", "webmill cdxj add-field"),
    "flat-cdxj-to-zipnum": ("webmill.cli.dropin.zipnum:write_zipnum", "webmill cdxj zipnum"),
    "zipnum-to-flat-cdxj": ("webmill.cli.dropin.zipnum:flatten", "webmill cdxj flatten"),
    "cdxj-search": ("webmill.cli.dropin.search:search", "webmill cdxj query"),
    "cdxj-extract-field": ("webmill.cli.dropin.lines:extract_field", "webmill cdxj field"),
    "arclist-to-path-index": ("webmill.cli.dropin.paths:make_path_index", "webmill cdxj paths make"),
    "path-index-to-redis": ("webmill.cli.dropin.paths:load_redis", "webmill cdxj paths redis"),
    "arclist-index-to-redis": ("webmill.cli.dropin.paths:make_and_load", "the two above together"),
    "cdxj-index-collection": ("webmill.cli.dropin.collection:index", "webmill index"),
    "cc-batcher": ("webmill.cli.dropin.pipeline:batcher", "webmill cc batch"),
    "cc-worker": ("webmill.cli.dropin.pipeline:worker", "webmill cc work"),
    "letsdata": ("webmill.cli.dropin.letsdata:letsdata", "webmill dataset"),
}
COMMANDS = {
    "install": ("webmill.cli.dropin.install:install", "Install the old commands into a folder."),
    **{name: (where, f"Same as {new}.") for name, (where, new) in OLD_NAMES.items()},
}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog="""\b
Example: let existing scripts find them
  webmill dropin install ~/bin/replay-tools
  export PATH=~/bin/replay-tools:$PATH""",
)
def dropin() -> None:
    """The commands of replay-cdxj-indexing-tools, commoncrawl-pipeline and letsdata, for existing scripts.

    Names, flags, defaults, output and exit codes are the old ones; bugs of the originals are fixed. In new scripts use
    the commands on the right.
    """
