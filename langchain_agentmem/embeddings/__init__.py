"""Embedding models: settings, one module per provider, and the `Embedder` that guards them."""
