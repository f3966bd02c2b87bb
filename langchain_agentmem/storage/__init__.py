"""Where records are kept: a SQLite database (the truth) and Chroma vectors (derived from it)."""
