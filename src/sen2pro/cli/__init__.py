"""The command line: `sen2pro encode | show | compare | demo | distill | score | reproduce | info | data | classify`."""
