"""Pages that live by scripts: a browser without a network, whose every request the crawler's own fetcher answers."""
