"""Malformed files and arguments: strategies of hypothesis, and what the library may make of them.

`make fuzz` tries 100,000 cases; `make test` a thousand. Each family stands for itself, and a seed repeats its cases:

    PYTHONPATH=tests .venv/bin/python -m fuzz --family parquet --cases 5000 --seed 3
"""
