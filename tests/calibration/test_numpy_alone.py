"""A saved confidence predicts with NumPy alone: scikit-learn and scipy are for fitting and for promises."""

import inspect
import subprocess
import sys

import numpy as np

from sen2pro import Gaussian
from sen2pro.calibration import MatchConfidence, SearchConfidence
from sen2pro.estimation.encoded import Encoded
from sen2pro.signature import Signature


class Model:
    """A model that has encoded its sentences already."""

    sources = ("model",)

    def estimate(self, sentences):
        raise NotImplementedError

    def signature(self):
        return Signature(*["x"] * 16)


PREDICT = f"""
import sys
import numpy as np
from sen2pro import Gaussian
from sen2pro.estimation.encoded import Encoded
from sen2pro.calibration import MatchConfidence, SearchConfidence
from sen2pro.signature import Signature

{inspect.getsource(Model)}
pairs, search = MatchConfidence.load("pairs", Model()), SearchConfidence.load("search")
parts = {{"model": Gaussian([[1.0, 0.5]], [[0.1, 0.2]])}}
side = Encoded(np.ones((1, 2), np.float32), parts, parts["model"], np.ones(1))
assert 0 < pairs.probability(side, side)[0] < 1
assert 0 < search.probability([[0.9, 0.2, 0.1]])[0] < 1
print(sorted({{"sklearn", "scipy", "torch"}} & set(sys.modules)))
"""


def test_importing_loading_and_predicting_import_neither_scikit_learn_nor_scipy(tmp_path):
    rng, sides = np.random.default_rng(0), []
    for _ in range(2):
        gaussian = Gaussian(rng.normal(size=(40, 2)), np.full((40, 2), 0.1))
        sides.append(Encoded(gaussian.mean, {"model": gaussian}, gaussian, np.ones(40)))
    labels = np.arange(40) % 2
    MatchConfidence().fit(Model(), *sides, labels).save(tmp_path / "pairs")
    SearchConfidence().fit(-np.sort(-rng.normal(size=(40, 3)), axis=1), labels).save(tmp_path / "search")
    found = subprocess.run([sys.executable, "-c", PREDICT], cwd=tmp_path, capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("[]\n", "")
