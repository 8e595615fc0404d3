"""Run the fuzzer from the command line."""

from fuzz.engine import main

raise SystemExit(main())
