"""The index of a collection: CDXJ lines, made, filtered, merged and looked up.

Tools here are generators over batches of raw lines (`webmill.index.lines`); stacked, they are one pass.
"""
