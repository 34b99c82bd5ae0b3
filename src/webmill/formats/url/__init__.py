"""URLs: the form that is fetched, the SURT key that is indexed, and the registered domain."""
