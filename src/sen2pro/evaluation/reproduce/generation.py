"""Tables 4, 5 and 11: evaluation of dialogue and of translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sen2pro.errors import Sen2ProError
from sen2pro.evaluation import paper
from sen2pro.evaluation.data import (
    WMT_PAIRS,
    DataMissing,
    Response,
    Systems,
    read_dialogue,
    read_wmt_segments,
    read_wmt_systems,
)
from sen2pro.evaluation.lab import Lab
from sen2pro.evaluation.metrics import Bleu, Metric, metric
from sen2pro.evaluation.report import Grid, Line, Result, count_verdicts, line_numbers, lines_grid
from sen2pro.evaluation.reproduce.readings import OURS, READINGS, SPHERE, Reading
from sen2pro.evaluation.reproduce.similarity import full_distance
from sen2pro.evaluation.statistics import (
    CORRELATIONS,
    Comparison,
    Undefined,
    average_statistic,
    correlation_statistic,
    paired_bootstrap,
)
from sen2pro.evaluation.systems import aligned, by_system
from sen2pro.gaussian import Array, Array64
from sen2pro.progress import progress

GRADE = {"grade_convai2": "ConvAI2", "grade_dailydialog": "DailyDialog", "grade_empatheticdialogues": "Empathetic"}
_BLANK = "."  # what is encoded for an output of nothing
_T8_SEGMENTS = 50  # of each language pair: full covariances of every output would take days


@dataclass
class Texts:
    """Candidates with their references and human scores, of several systems."""

    systems: list[str]
    candidates: list[str]
    references: list[str]
    human: dict[str, float]  # of each system
    single: Array64 | None = None  # of each candidate, where there are such

    def rows(self, system: str) -> list[int]:
        """Return which candidates are a system's."""
        return [i for i, name in enumerate(self.systems) if name == system]


def _dialogue(name: str, limit: int | None) -> Texts:
    responses: Sequence[Response] = read_dialogue(name)
    if limit:
        items = sorted({r.item for r in responses})[:limit]
        responses = [r for r in responses if r.item in set(items)]
    systems = [r.system for r in responses]
    human = np.array([r.human for r in responses])
    texts = [r.response for r in responses], [r.reference for r in responses]
    return Texts(systems, *texts, by_system(systems, human), human)


def _translation(found: Systems, limit: int | None) -> Texts:
    count = len(found.references)
    chosen = range(count) if not limit else np.linspace(0, count - 1, min(limit, count)).astype(int).tolist()
    systems = [system for system in found.outputs for _ in chosen]
    candidates = [found.outputs[system][i] for system in found.outputs for i in chosen]
    return Texts(systems, candidates, [found.references[i] for _ in found.outputs for i in chosen], found.human)


def sen2vec_scores(lab: Lab, texts: Texts) -> Array:
    """Return the cosine of plain vectors of each candidate with its reference."""
    sentences, left, right = _distinct(texts)
    vectors = lab.vectors(sentences)
    return np.asarray((vectors[left] * vectors[right]).sum(axis=1))


def sen2pro_scores(lab: Lab, texts: Texts, reading: Reading, seed: int) -> Array:
    """Return the similarity of each candidate with its reference."""
    sentences, left, right = _distinct(texts)
    joined = lab.join(lab.parts(sentences, seed, normalize=reading.normalize))
    return reading.pairwise(joined[left], joined[right])


def _distinct(texts: Texts) -> tuple[list[str], Array, Array]:
    sides = [[text if text.strip() else _BLANK for text in side] for side in (texts.candidates, texts.references)]
    index = {text: i for i, text in enumerate(dict.fromkeys(sides[0] + sides[1]))}
    left, right = (np.array([index[text] for text in side]) for side in sides)
    return list(index), left, right


def _values(texts: Texts, kind: Metric, *, single: bool) -> dict[str, float] | Array64:
    """Return a metric's score of each candidate, or of each system as a whole; less is more where it is an error."""
    candidates = (
        texts.candidates if kind.takes_blank else [text if text.strip() else _BLANK for text in texts.candidates]
    )
    sign = 1 if kind.higher_is_better else -1
    if single:
        return sign * kind.segments(candidates, texts.references)
    found = {}
    for system in texts.human:
        rows = texts.rows(system)
        found[system] = sign * kind.corpus([candidates[i] for i in rows], [texts.references[i] for i in rows])
    return found


def _compare(plain: Array, ours: Sequence[Array], texts: Texts, kind: str, *, single: bool) -> Comparison | str:
    """Compare Sen2Pro (each seed) with Sen2Vec by a bootstrap over systems, or over single texts; times 100."""

    def points(scores: Array) -> tuple[Array64, Array64]:
        if single:
            assert texts.single is not None
            return scores.astype(np.float64), texts.single
        return aligned(by_system(texts.systems, scores), texts.human)[1:]

    try:
        statistics = [correlation_statistic(kind, *points(scores)) for scores in ours]
        return paired_bootstrap(statistics, correlation_statistic(kind, *points(plain)), len(points(plain)[0])).scaled(
            100
        )
    except Undefined as error:
        return str(error)


def _line(labels: list[str], quoted: tuple[float, float] | None, found: Comparison | str) -> Line:
    return Line(labels, quoted, missing=found) if isinstance(found, str) else Line(labels, quoted, found)


def _correlate(values: dict[str, float] | Array64, texts: Texts, kind: str) -> float | None:
    try:
        if isinstance(values, dict):
            return 100 * CORRELATIONS[kind](*aligned(values, texts.human)[1:])
        assert texts.single is not None
        return 100 * CORRELATIONS[kind](values, texts.single)
    except Undefined:
        return None


def _cell(ours: float | None, quoted: float | None) -> str:
    mine = "undefined" if ours is None else f"{ours:.1f}"
    return mine if quoted is None else f"{mine} ({quoted:.1f})"


@dataclass
class _Task:
    """A table of metrics by sets: what is scored, how, and what the paper says of it."""

    names: Mapping[str, str]  # set -> title
    texts: Callable[[str], Texts]
    metrics: tuple[str, ...]
    correlations: tuple[str, ...]
    single: bool
    quoted: Callable[[str, str, str], float | None]  # metric, set, correlation
    bleu: str = "13a"


def _run(lab: Lab, task: _Task) -> tuple[Grid, list[Line], list[dict[str, object]], list[str]]:
    """Score every set with every metric; return the table, the comparisons, all numbers, and what is missing."""
    columns: list[tuple[str, str]] = []
    cells: dict[str, list[str]] = {}
    lines: list[Line] = []
    numbers: list[dict[str, object]] = []
    missing: list[str] = []
    with progress(len(task.names) * (len(task.metrics) + 2), lab.store.show, unit="scores") as advance:
        for name, title in task.names.items():
            try:
                texts = task.texts(name)
            except DataMissing:
                missing.append(title)
                continue
            columns += [(title, kind) for kind in task.correlations]
            values = _all_values(lab, task, texts, advance)
            for label, found in values.items():
                for kind in task.correlations:
                    per_seed = [_correlate(one, texts, kind) for one in found]
                    mine = None if None in per_seed else float(np.mean([v for v in per_seed if v is not None]))
                    said = task.quoted(label.split(",")[0], name, kind)
                    cells.setdefault(label, []).append(_cell(mine, said))
                    numbers.append({"set": title, "metric": label, "correlation": kind, "ours": mine, "paper": said})
            for reading in READINGS:
                ours = [sen2pro_scores(lab, texts, reading, seed) for seed in range(lab.seeds)]
                for kind in (k for k in task.correlations if k != "kendall"):
                    pair = task.quoted("sen2vec", name, kind), task.quoted("sen2pro", name, kind)
                    said_pair = (pair[0], pair[1]) if pair[0] is not None and pair[1] is not None else None
                    found_ = _compare(sen2vec_scores(lab, texts), ours, texts, kind, single=task.single)
                    lines.append(_line([title, kind, reading.title], said_pair, found_))
    header = ["metric", *(f"{title} {kind}" if len(task.correlations) > 1 else title for title, kind in columns)]
    return Grid(header, [[label, *row] for label, row in cells.items()]), lines, numbers, missing


def _all_values(
    lab: Lab, task: _Task, texts: Texts, advance: Callable[[float], None]
) -> dict[str, list[dict[str, float] | Array64]]:
    """Return the scores of every metric, a list over seeds, by its name in the table."""
    values: dict[str, list[dict[str, float] | Array64]] = {}
    for name in task.metrics:
        kind = Bleu(task.bleu) if name == "bleu" else metric(name, model=lab.encoder(corpus=texts.candidates))
        values[name] = [_values(texts, kind, single=task.single)]
        advance(1)

    def summed(scores: Array) -> dict[str, float] | Array64:
        return scores.astype(np.float64) if task.single else by_system(texts.systems, scores)

    values["sen2vec"] = [summed(sen2vec_scores(lab, texts))]
    for reading in READINGS:
        found = [summed(sen2pro_scores(lab, texts, reading, seed)) for seed in range(lab.seeds)]
        values[f"sen2pro, {reading.title}"] = found
    advance(2)
    return values


def _quoted_rows(
    grid: Grid, table: Mapping[str, Mapping[str, float]], names: Sequence[str], columns: list[str]
) -> None:
    """Add rows that are only in the paper."""
    for name in names:
        grid.rows.append([f"{name} (paper only)", *(f"({table[name][column]:.1f})" for column in columns)])


def _missing_note(missing: list[str]) -> list[str]:
    return [f"{', '.join(missing)}: no data here; `sen2pro data list` says where it comes from."] if missing else []


def _need_some(grid: Grid, missing: list[str]) -> None:
    if len(grid.header) == 1:
        raise DataMissing(f"there is no data for any of {', '.join(missing)}; see `sen2pro data list`")


_LEXICAL = ("bleu", "chrf", "ter", "meteor", "rouge-l", "greedy", "average", "extrema", "bertscore")


def t4(lab: Lab) -> Result:
    """Table 4: dialogue, at system level as in the paper, and at the level of responses."""

    def quoted(name: str, set_: str, kind: str) -> float | None:
        row = paper.T4.get(name, {}).get(set_)
        return None if row is None else row[0 if kind == "spearman" else 1]

    kinds = ("spearman", "pearson")
    of_systems = _Task(
        paper.DIALOGUE, lambda name: _dialogue(name, lab.limit), ("bleu-nltk", *_LEXICAL[3:]), kinds, False, quoted
    )
    of_responses = _Task(GRADE, lambda name: _dialogue(name, lab.limit), _LEXICAL, kinds, True, lambda *_: None)
    grid, lines, numbers, missing = _run(lab, of_systems)
    clean, clean_lines, clean_numbers, clean_missing = _run(lab, of_responses)
    _need_some(grid, missing)
    names = ["set", "correlation", "similarity"]
    grid.title = f"{lab.title}, system level, correlation x 100: ours (paper's)"
    clean.title = f"{lab.title}, response level on clean data (GRADE's), correlation x 100; not in the paper"
    grids = [
        grid,
        lines_grid(
            names, lines, "BERT-base", title="System level, Sen2Vec to Sen2Pro, bootstrap over systems", digits=1
        ),
        clean,
        lines_grid(names, clean_lines, "none", title="Response level, bootstrap over responses", digits=1),
    ]
    chosen = [line for line in clean_lines if line.labels[2] == OURS.title]
    verdict = (
        f"system level: {count_verdicts([line for line in lines if line.labels[2] == OURS.title])}; response level: "
        f"{count_verdicts(chosen)} ({OURS.title})"
    )
    return Result(
        "T4", "Dialogue evaluation", grids, verdict, lab.signature(),
        [*paper.NOTES["T4"], *_missing_note(missing + clean_missing)],
        [*numbers, *clean_numbers, *line_numbers(names, [*lines, *clean_lines])],
    )  # fmt: skip


def _wmt(
    lab: Lab, id_: str, task: _Task, table: Mapping[str, Mapping[str, float]], only: Sequence[str], title: str
) -> Result:
    grid, lines, numbers, missing = _run(lab, task)
    _need_some(grid, missing)
    there = [name for name in WMT_PAIRS if name not in missing]
    if len(task.correlations) == 1:
        _quoted_rows(grid, table, only, there)
    _averages(grid, numbers, table, task.correlations)
    unit = "segments" if task.single else "systems"
    grid.title = f"{lab.title}, correlation x 100: ours (paper's)"
    names = ["pair", "correlation", "similarity"]
    compared = lines_grid(names, lines, "BERT-base", title=f"Sen2Vec to Sen2Pro, bootstrap over {unit}", digits=1)
    verdicts = [
        f"{reading.title}: {count_verdicts([line for line in lines if line.labels[2] == reading.title])}"
        for reading in READINGS
    ]
    return Result(
        id_, title, [grid, compared], "; ".join(verdicts), lab.signature(),
        [*paper.NOTES[id_], *_missing_note(missing)], [*numbers, *line_numbers(names, lines)],
    )  # fmt: skip


def _averages(
    grid: Grid, numbers: list[dict[str, object]], table: Mapping[str, Mapping[str, float]], kinds: tuple[str, ...]
) -> None:
    """Add a column with the average over the language pairs at hand; the paper's is over all seven."""
    kind = kinds[0]
    grid.header.append(f"average {kind}" if len(kinds) > 1 else "average")
    for row in grid.rows:
        label = row[0].removesuffix(" (paper only)")
        mine = [n["ours"] for n in numbers if n["metric"] == label and n["correlation"] == kind]
        said = table.get(label.split(",")[0], {}).get("average")
        if not mine or any(value is None for value in mine):
            row.append(f"({said:.1f})" if said is not None else "–")
        else:
            row.append(_cell(float(np.mean([float(str(value)) for value in mine])), said))


def t5(lab: Lab) -> Result:
    """Table 5: translation, system level."""
    task = _Task(
        {pair: pair for pair in WMT_PAIRS},
        lambda pair: _translation(read_wmt_systems(pair), lab.limit),
        ("bleu", "cder", "bertscore"),
        ("pearson",),
        False,
        lambda name, pair, kind: paper.T5.get(name, {}).get(pair),
        bleu="intl",
    )
    return _wmt(lab, "T5", task, paper.T5, ["blend"], "Translation evaluation at system level, WMT17 into English")


def _segments(pair: str, limit: int | None) -> Texts:
    found = read_wmt_segments(pair)
    if limit:
        found = [found[i] for i in np.linspace(0, len(found) - 1, min(limit, len(found))).astype(int)]
    texts = [s.hypothesis for s in found], [s.reference for s in found]
    return Texts([pair] * len(found), *texts, {}, np.array([s.human for s in found]))


def t11(lab: Lab) -> Result:
    """Table 11: translation, segment level."""
    task = _Task(
        {pair: pair for pair in WMT_PAIRS},
        lambda pair: _segments(pair, lab.limit),
        ("bleu", "chrf", "ter", "cder", "meteor", "bertscore"),
        ("pearson", "kendall"),
        True,
        lambda name, pair, kind: paper.T11.get(name, {}).get(pair) if kind == "pearson" else None,
        bleu="intl",
    )
    result = _wmt(lab, "T11", task, paper.T11, ["iter", "ruse"], "Translation evaluation at segment level, WMT17")
    header = ["metric (paper only)", *paper.WMT_COLUMNS]
    rows = [[name, *(f"{paper.T11[name][column]:.1f}" for column in paper.WMT_COLUMNS)] for name in ("iter", "ruse")]
    result.grids.insert(1, Grid(header, rows, "Quoted from the paper"))
    return result


def _full_and_diagonal(lab: Lab, texts: Texts, seed: int) -> tuple[Array64, Array]:
    sentences, left, right = _distinct(texts)
    samples = lab.samples_of(sentences, seed)
    sides = [{source: x[side] for source, x in samples.items()} for side in (left, right)]
    joined = lab.join(lab.parts(sentences, seed, keep_samples=True))
    return -full_distance(*sides), SPHERE.pairwise(joined[left], joined[right])


def _t8(lab: Lab, title: str, kind: str, sets: Sequence[Texts], quoted: tuple[float, float]) -> list[Line]:
    """Compare full and diagonal covariances by their average correlation over sets, systems being drawn anew."""
    sizes = [len(texts.human) for texts in sets]
    ends = np.cumsum(sizes)
    places = [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    found: list[list[Callable[[Array64], Array64]]] = [[], []]
    for seed in range(lab.seeds):
        pairs = [_full_and_diagonal(lab, texts, seed) for texts in sets]
        for which in (0, 1):
            parts = [
                correlation_statistic(kind, *aligned(by_system(texts.systems, pair[which]), texts.human)[1:])
                for texts, pair in zip(sets, pairs, strict=True)
            ]
            found[which].append(average_statistic(parts, places))
    groups = np.repeat(np.arange(len(sizes)), sizes)

    def full(counts: Array64) -> Array64:
        return np.asarray(np.mean([statistic(counts) for statistic in found[0]], axis=0))

    compared = paired_bootstrap(found[1], full, int(ends[-1]), groups=groups).scaled(100)
    return [Line([f"Average of {len(sets)}", title], quoted, compared)]


def t8_dialogue(lab: Lab) -> list[Line]:
    """Return the dialogue line of Table 8."""
    try:
        sets = [_dialogue(name, lab.limit) for name in paper.DIALOGUE]
        return _t8(lab, "Dialog", "spearman", sets, paper.T8["Dialog"])
    except Sen2ProError as error:
        return [Line(["Average", "Dialog"], paper.T8["Dialog"], missing=_reason(error))]


def t8_translation(lab: Lab) -> list[Line]:
    """Return the translation line of Table 8, on a part of the segments."""
    sets = []
    for pair in WMT_PAIRS:
        try:
            found = read_wmt_systems(pair)
        except DataMissing:
            continue
        sets.append(_translation(found, min(lab.limit or _T8_SEGMENTS, _T8_SEGMENTS)))
    if not sets:
        return [Line(["Average", "NMT"], paper.T8["NMT"], missing="no data")]
    return [
        replace(line, labels=[f"{line.labels[0]}, {_T8_SEGMENTS} segments", "NMT"])
        for line in _t8(lab, "NMT", "pearson", sets, paper.T8["NMT"])
    ]


def _reason(error: Sen2ProError) -> str:
    return "no data" if isinstance(error, DataMissing) else str(error)
