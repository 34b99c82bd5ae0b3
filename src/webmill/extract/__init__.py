"""Pages become documents: the reference's IndexRecord, our Document, or what a function of yours makes of them."""
