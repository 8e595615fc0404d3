"""How the heads that ship are fitted."""

import numpy as np

from sen2pro_lab.training.default_head import split_kinds


def test_kinds_are_held_out_whole_and_every_sentence_once():
    kinds = ["news"] * 5 + ["mail"] * 30 + ["law"] * 4 + ["verse"] * 3 + ["film"] * 2 + ["chat"] * 9
    folds = split_kinds(kinds)
    assert sorted(np.concatenate([held for held, _ in folds])) == list(range(len(kinds)))
    for held, rest in folds:
        assert not {kinds[i] for i in held} & {kinds[i] for i in rest}
        assert len(held) + len(rest) == len(kinds)
