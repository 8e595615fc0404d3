"""How a golden was made: its method, its seed, and its head."""

SAMPLING = {"method": "sampling", "seed": 0, "head": "none"}
ONE_PASS = {"method": "one-pass", "seed": "none", "head": "shipped"}
PLAIN = {"method": "one plain pass", "seed": "none", "head": "none"}
NUMBERS = {"method": "given numbers", "seed": 0, "head": "none"}  # no model at all
NONE = {"method": "none", "seed": "none", "head": "none"}
BOTH = {"method": "both", "seed": 0, "head": "shipped"}
