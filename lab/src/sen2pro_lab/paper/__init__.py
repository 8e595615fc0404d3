"""Stage 5, the laboratory: the tables and figures of the paper, made again, with the paper's numbers beside ours."""
