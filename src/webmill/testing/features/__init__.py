"""Everything a web can do to a crawler, one file per kind, each at a known address. All of them: `catalog`."""
