"""Care for the frontier of a crawl, from outside: counts, URLs given to it, copies of it, what another crawler left."""
