"""Take pages down: out of index, versions, search and exports; closed at delivery; out of the archives on demand."""
