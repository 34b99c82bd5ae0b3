"""A polite crawl that is safe to kill at any moment. `start.crawl` runs it, `crew` its processes, `shard` each one."""
