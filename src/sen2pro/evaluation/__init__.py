"""Evaluation: the tables and figures of the paper, and its metrics for your own text."""
