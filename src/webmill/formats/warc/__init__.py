"""WARC (ISO 28500, any version) and ARC files: read_records for whole files, read_record_at for what a range request
brought, open_block for one block too large to hold."""

from __future__ import annotations

from webmill.formats.warc.head import Limits
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.single import Block, open_block, read_record_at

__all__ = ["Block", "Limits", "open_block", "read_record_at", "read_records"]
