"""Captures to documents. `webmill extract`, `cc` and `dataset` name tasks in three ways; all the rest is here.

tasks      a WARC file, a line of a manifest (WARC + WAT + WET), or a batch of captures of an index
engine     hands tasks of a queue to the workers of an executor, holds their leases, settles them
worker     one task in a worker: its captures, each made into a Document in a sandbox; parts, receipts
output     where documents go, and what is kept beside them: receipts, the spool, sealed parts
"""
