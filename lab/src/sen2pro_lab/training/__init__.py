"""What made the numbers that ship: heads, percentiles, defaults; run as `python -m sen2pro_lab.training.NAME`."""
