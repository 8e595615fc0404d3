"""A `Sen2Pro` in the tools that people use already: evaluation, search and RAG frameworks, and scikit-learn."""
