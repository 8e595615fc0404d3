"""What users see, kept as golden values; README.md says how."""
