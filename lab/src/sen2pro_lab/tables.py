"""Every table, figure and theorem of the paper, and the contests, by their names.

>>> sorted(TABLES)
['C1', 'C2', 'C3', 'C4', 'C5', 'F1', 'F2', 'F3', 'F4', 'T1', 'T10', 'T11', 'T2', 'T3', 'T4', 'T5', 'T6', 'T7', 'T8',
 'T9', 'Th1', 'Th2']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sen2pro.errors import Sen2ProError, one_of
from sen2pro_lab.contests import intents, left_out, pairs, retrieval, specificity
from sen2pro_lab.metrics.report import Result
from sen2pro_lab.paper.lab import Lab
from sen2pro_lab.paper.tables import classification, figures, generation, similarity, theorems

TABLES: dict[str, Callable[[Lab], Result]] = {
    "T1": classification.t1, "T2": similarity.t2, "T3": similarity.t3, "T4": generation.t4, "T5": generation.t5,
    "T6": similarity.t6, "T7": classification.t7, "T8": figures.t8, "T9": similarity.t9, "T10": similarity.t10,
    "T11": generation.t11, "F1": figures.f1, "F2": figures.f2, "F3": figures.f3, "F4": figures.f4,
    "Th1": theorems.th1, "Th2": theorems.th2, "C1": specificity.c1, "C2": pairs.c2,
    "C3": intents.c3, "C4": retrieval.c4, "C5": left_out.c5,
}  # fmt: skip
# What only sampling gives: the samples themselves, or (F2) poolings that a head was not fitted for.
NEED_SAMPLES = ("T8", "F2", "F3", "F4")


def chosen(names: Sequence[str], method: str = "sampling") -> list[str]:
    """Return the names of tables as they are written here.

    `all` are all of the paper's that a method can give, `contests` the five that are not in the paper.

    >>> chosen(["t2", "TH1"])
    ['T2', 'Th1']
    """
    spelt = {name.lower(): [name] for name in TABLES}
    spelt["contests"] = [name for name in TABLES if name.startswith("C")]
    of_paper = [name for name in TABLES if name not in spelt["contests"]]
    spelt["all"] = [name for name in of_paper if method == "sampling" or name not in NEED_SAMPLES]
    asked = [spelt.get(name.lower()) or [one_of("table", name, [*TABLES, "all", "contests"])] for name in names]
    return list(dict.fromkeys(name for some in asked for name in some))


def reproduce(name: str, lab: Lab | None = None) -> Result:
    """Make a table or figure of the paper anew.

    >>> reproduce("Th2", Lab(limit=10)).id
    'Th2'
    """
    lab = lab or Lab()
    one_of("table", name, TABLES)
    if name in NEED_SAMPLES and lab.method != "sampling":
        raise Sen2ProError(f"{name} cannot be made by {lab.method}; use method sampling")
    return TABLES[name](lab)
