"""Documents from WARC, WAT and WET files: `run` does the tasks of a dataset, `folder` makes one, `views` tell of it."""
