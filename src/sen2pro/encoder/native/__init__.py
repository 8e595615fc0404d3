"""Our own backend: networks of the common families, straight from a folder, without transformers."""
