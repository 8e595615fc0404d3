"""Stage 2, sampling: keyed dropout (model uncertainty) and word edits (data uncertainty)."""

SCHEME = 1  # raise it when the samples that belong to a seed change: what was kept of the old ones is then not used
