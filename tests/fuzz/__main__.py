"""Run the fuzzer from the command line."""

from fuzz.run import main

raise SystemExit(main())
