"""What the library costs and what its answers are worth, measured; run as `python -m sen2pro_lab.benchmarks.NAME`."""
