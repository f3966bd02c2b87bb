"""One search over both indexes, for both kinds of record."""
