"""The old place of `sen2pro.metrics.report`, for `sen2pro.classification` until it imports from there."""

from sen2pro.metrics.report import Grid, Result, print_result, to_json, to_markdown

__all__ = ["Grid", "Result", "print_result", "to_json", "to_markdown"]
