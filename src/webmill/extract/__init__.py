"""Pages become documents: our Document, or what a function of yours makes of them."""
