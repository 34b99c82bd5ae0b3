"""Tools over CDXJ lines: sort, merge, filter, change."""
