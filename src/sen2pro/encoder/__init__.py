"""Stage 1, the encoder: a name becomes files, files a network, and token ids one pooled vector a sentence."""
