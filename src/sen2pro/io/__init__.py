"""Every way in and out of the disk: JSON documents, tensors, lines of text, and writing whole or not at all."""
