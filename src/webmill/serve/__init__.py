"""HTTP: what is in a collection, for programs, for web-archive clients and for people."""
