"""Find the generic answers of dialogue models by their specificity.

    python -m sen2pro_lab.benchmarks.generic_answers     # needs SEN2PRO_DATA; a minute

Two questions, each with the length in words beside our measure. How well does the specificity of an answer go with
people's rating of how interesting it is (Persona(M), criterion 4 of 6)? How often is the answer of a person more
specific than that of a generator to the same context (GRADE)? No rating was used to make the measure.
"""

from __future__ import annotations

import numpy as np

from sen2pro import Sen2Pro
from sen2pro.confidence.measures import Comparison, mean_statistic, paired_bootstrap
from sen2pro_lab.benchmarks.common import save
from sen2pro_lab.metrics.statistics import correlation_statistic
from sen2pro_lab.paper import catalogue
from sen2pro_lab.paper.files import Row, objects

INTERESTING = 3  # of: understandable, natural, keeps the context, interesting, uses knowledge, overall
GENERATED = (("grade_dailydialog", "transformer_generator"), ("grade_convai2", "transformer_generator"),
             ("grade_convai2", "dialogGPT"))  # fmt: skip


def answers(name: str) -> list[Row]:
    return list(objects(catalogue.need(f"dialogue/{name}.jsonl")))


def measures(model: Sen2Pro, rows: list[Row], column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return specificity and number of words of the texts in a column."""
    texts = [row.text(column) for row in rows]
    return model.specificity(texts).value, np.array([len(text.split()) for text in texts], float)


def show(name: str, result: Comparison) -> dict[str, object]:
    gain = f"{result.gain:+.3f} [{result.low:+.3f}, {result.high:+.3f}]"
    print(f"{name}: specificity {result.value:.3f}, length {result.baseline:.3f}, gain {gain}")
    return result.to_dict()


def main() -> None:
    model, results = Sen2Pro(), {}
    rows = answers("extra_persona_m")
    rated = np.array([row.get("human")[INTERESTING] for row in rows])
    ours, length = (correlation_statistic("spearman", each, rated) for each in measures(model, rows, "response"))
    name = f"interesting, Spearman, {len(rows)} answers"
    results[name] = show(name, paired_bootstrap([ours], length, len(rows)))
    for file, system in GENERATED:
        rows = [row for row in answers(file) if row.text("system") == system]
        person, machine = (measures(model, rows, column) for column in ("reference", "response"))
        wins = [(a > b) + (a == b) / 2 for a, b in zip(person, machine, strict=True)]
        name = f"{file}, {system}: the person's answer has more, {len(rows)} contexts"
        ours, length = map(mean_statistic, wins)
        results[name] = show(name, paired_bootstrap([ours], length, len(rows)))
    save("generic_answers", {"signature": str(model.signature()), **results})


if __name__ == "__main__":
    main()
