"""Documents to a corpus: filters, duplicates, statistics, data sets that others load in one line.

    documents/ ─▶ attributes (what each step measured) ─▶ decisions (what is kept, and why not) ─▶ data set

Steps measure documents, which never change; the mix applies thresholds to what they measured. A changed threshold
reads attributes again, not text.
"""
