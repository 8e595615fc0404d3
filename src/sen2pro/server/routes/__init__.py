"""The routes: one module per dialect."""
