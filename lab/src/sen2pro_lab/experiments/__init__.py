"""Ideas that were measured and did not become a method of the library."""
