"""WARC (ISO 28500, any version), ARC, WAT and WET files.

`reader.read_records` reads whole files, `single.read_record_at` what a range request brought, `single.open_block` one
block too large to hold, `scan` what an index needs, `typed_records` what a record means, and `writer` writes records.
"""
