"""Everything a web can do to a crawler, one file per kind, each at a known URL. `catalog` lists them all."""
