"""Stage 5, the laboratory: the tables and figures of the paper, made anew, with the paper's numbers beside ours."""
