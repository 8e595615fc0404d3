"""Stage 3, estimation: samples become a mean and a variance, or a head predicts both from one pass."""
