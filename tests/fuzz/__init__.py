"""A fuzzer: malformed files and arguments, each from a seed, and what the library makes of them.

`make fuzz` tries 100,000 cases; `make test` a few hundred. A case is a family, a seed and a number; to repeat one:

    PYTHONPATH=tests .venv/bin/python -m fuzz --family parquet --case 123
"""
