"""Contest C2, and the shipped grades against people's."""

import os
import warnings

import numpy as np
import pytest
from small_data import table

from sen2pro import Sen2Pro
from sen2pro.calibration.defaults import defaults
from sen2pro_lab.contests.pairs import c2
from sen2pro_lab.paper.data import DataMissing, read_sts
from sen2pro_lab.paper.lab import Lab
from sen2pro_lab.paper.store import Store

WORDS = "red green blue old new big small warm cold fast slow dark".split()


@pytest.mark.data
@pytest.mark.slow
def test_intervals_hold_nine_in_ten_grades_of_sts_b_test(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    if not os.environ.get("SEN2PRO_DATA"):
        pytest.skip("set SEN2PRO_DATA to a folder of evaluation data")
    try:
        pairs = read_sts("stsb_test")
    except DataMissing as error:
        pytest.skip(str(error))
    one_pass = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")
    left, right = (one_pass.encode_plain(list(side)).astype(float) for side in (pairs.left, pairs.right))
    _, low, high = defaults().pairs.grade((left * right).sum(axis=1))
    assert abs(((pairs.gold >= low) & (pairs.gold <= high)).mean() - 0.9) < 0.02


def test_the_contest_reads_sets_by_their_names(shared_folder, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        rows = []
        for i in range(60):
            first = " ".join(rng.choice(WORDS, 4))
            second = " ".join(rng.permutation(first.split())) if i % 2 else " ".join(rng.choice(WORDS, 4))
            rows.append((first, second, i % 2))
        table(tmp_path / f"data/confidence/shuffled_{part}.tsv", ("sentence1", "sentence2", "label"), rows)
    monkeypatch.setenv("SEN2PRO_DATA", str(tmp_path / "data"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = c2(Lab(str(shared_folder), samples=4, store=Store(tmp_path / "kept", show=False)))
    ways = [row[1].removesuffix(" *") for row in result.grids[0].rows if row[0] == "shuffled"]
    assert len(ways) == 5
    assert ways[-1] == "logistic, with the distribution"
    assert len(result.grids[1].rows) == 4
    assert [row for row in result.grids[0].rows if row[0] == "stsb" and "stsb_train" in row[1]]  # said, not left out
