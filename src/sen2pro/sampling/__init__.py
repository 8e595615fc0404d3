"""Stage 2, sampling: keyed dropout (model uncertainty) and word edits (data uncertainty)."""
