"""Administration of a crawl's frontier, from outside: counts, adding URLs, copies, backups, exports."""
