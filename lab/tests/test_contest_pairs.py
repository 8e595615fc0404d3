"""Contests C2 and C5, and the numbers of `compare` that ship, against people's."""

import warnings

import numpy as np
import pytest
from small_data import table

from sen2pro import Sen2Pro
from sen2pro.calibration.defaults import defaults
from sen2pro.calibration.selection import losses
from sen2pro_lab.contests.left_out import calibration_error
from sen2pro_lab.contests.pairs import c2
from sen2pro_lab.paper.data import DataMissing
from sen2pro_lab.paper.lab import Lab
from sen2pro_lab.paper.store import Store
from sen2pro_lab.training.default_confidence import read

WORDS = "red green blue old new big small warm cold fast slow dark".split()


@pytest.mark.data
@pytest.mark.slow
def test_the_promises_of_compare_hold_on_sts_b_test(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model, curves = Sen2Pro("all-MiniLM-L6-v2", method="one-pass"), defaults().pairs
    try:
        pairs = read(model.estimate, "stsb_test", without=())
    except DataMissing as error:
        pytest.skip(str(error))
    terms = pairs.terms(curves)
    _, low, high = curves.grade(terms)
    assert 0.88 < ((pairs.gold >= low) & (pairs.gold <= high)).mean() < 0.94
    assert losses(terms @ np.array(curves.same_meaning), pairs.same).mean() < 0.345
    assert calibration_error(curves.probability(terms), pairs.same) < 0.07  # noise alone makes 0.03


def test_pairs_of_the_sets_left_out_are_dropped_and_families_are_named(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setenv("SEN2PRO_DATA", str(tmp_path))
    same = ("a red dog", "an old dog")
    for name, file in (("sts12", "surprise.OnWN"), ("stsb_test", "OnWN")):
        rows = [
            (file, "2012", grade, " ".join(rng.choice(WORDS, 4)), " ".join(rng.choice(WORDS, 4))) for grade in range(5)
        ]
        rows.append((file, "2012", 5.0, *(same if name == "sts12" else same[::-1])))
        table(tmp_path / f"sts/{name}.tsv", ("subtask", "year", "score", "sentence1", "sentence2"), rows)
    kept = read(Sen2Pro(method="one-pass").estimate, "sts12", without=("stsb_test",))
    assert kept.gold.tolist() == [0, 1, 2, 3, 4]
    assert set(kept.family) == {"OnWN"}
    assert set(kept.year) == {"2012"}
    assert (kept.words == 8).all()


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
