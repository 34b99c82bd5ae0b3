"""CDXJ lines made of the records of WARC and ARC files."""
