"""`python -m sen2pro` is `sen2pro`."""

from sen2pro.cli.app import main

main()
