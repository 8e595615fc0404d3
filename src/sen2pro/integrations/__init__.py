"""Evaluate a `Sen2Pro` with the tools made for sentence vectors: MTEB and sentence-transformers."""
