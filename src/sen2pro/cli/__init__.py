"""The command line: `sen2pro encode | compare | demo | info`."""
