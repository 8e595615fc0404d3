"""The laboratory of sen2pro: the paper's tables, the contests, the benchmarks, and the training of what ships."""
