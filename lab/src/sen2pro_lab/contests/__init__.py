"""The contests: tables that are not in the paper, our answers against their rivals."""
