"""Where rows go: files of JSON lines or Parquet in any storage, or messages of a queue or stream."""
