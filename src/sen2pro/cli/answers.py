"""`sen2pro specificity` and `sen2pro compare`: answers about sentences."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import HeadMissing, Sen2ProError, Sen2ProWarning
from sen2pro.io.inputs import Reader, Record, sentences
from sen2pro.io.tables import SUFFIXES, new_table
from sen2pro.progress import progress

if TYPE_CHECKING:
    from rich.text import Text

    from sen2pro.model import Sen2Pro

Row = dict[str, Any]
_DECIMALS = {"specificity": 1, "at_length": 1, "value": 4}
_COLUMNS = (
    "A .csv, .tsv or .jsonl file with the columns text, specificity (the score), at_length (the score among sentences "
    "of its length) and value."
)
_CHUNK = 1024  # sentences in memory at once
_SHOWN = 3  # sentences printed of the vaguest, and as many of the most specific
_SPREAD = "not 0 for identical sentences: it counts their spread"
_READING = {
    "sen2pro": "smaller is closer; Eq. 6 of the paper", "expected-cosine": _SPREAD, "expected-l2": _SPREAD
}  # fmt: skip


class ScoredFile(NamedTuple):
    """The numbers of sentences scored and kept, and the ends of those kept, the vaguest first."""

    sentences: int
    kept: int
    ends: list[Row]


@options.with_settings(*options.IN_ONE_PASS, more={"reading": options.Reading})
def specificity(
    settings: options.Chosen,
    reading: options.Chosen,
    input: Annotated[str, Argument(help=f"{options.INPUT}; - is standard input.")],
    output: Annotated[str, Argument(help=_COLUMNS)],
    below: Annotated[float | None, Option(help="Keep only sentences with a score below this.", min=0, max=100)] = None,
    above: Annotated[float | None, Option(help="Keep only sentences with a score above this.", min=0, max=100)] = None,
    sort: Annotated[bool, Option("--sort", help="Write the vaguest first.")] = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Score how specific each sentence is, in one pass and without labels.

    A score of 20 means: more specific than 20 % of English sentences. A sentence below 20 is vague. Memory does not
    grow with the file, unless you sort. The output appears under its name only when it is complete.
    """
    path = options.check_output(output, SUFFIXES, [input], overwrite=overwrite)
    source = sentences(input, **reading)
    number = source.count()
    with options.notes() as gathered:
        model = options.load(**settings)
        with progress(number, None, threshold=2048, unit="sentences") as advance:
            scores = write_scores(
                path, model, source, ids="id_column" in reading, below=below, above=above, sort=sort,
                overwrite=overwrite, advance=advance,
            )  # fmt: skip
    _print_ends(model, scores.ends)
    of_all = "" if scores.kept == scores.sentences else f" of {scores.sentences}"
    Console().say(f"{scores.kept}{of_all} sentence{'s' * (scores.sentences != 1)} -> {output}")
    options.report(options.together(gathered, scores.sentences), options.signature_in_one_pass(model))


def write_scores(
    path: Path, model: Sen2Pro, source: Reader[Record], *, ids: bool = False, below: float | None = None,
    above: float | None = None, sort: bool = False, overwrite: bool = True,
    advance: Callable[[float], None] = lambda _: None,
) -> ScoredFile:  # fmt: skip
    """Write how specific every sentence is, in the order of the source or, with `sort`, the vaguest first.

    `below` and `above` keep only sentences with such a score. Sorting keeps all of these in memory.
    """
    columns = {**({"id": None} if ids else {}), "text": None, **_DECIMALS}
    total = kept = 0
    ends: list[Row] = []
    waiting: list[Row] = []
    with new_table(path, columns, overwrite=overwrite) as write:
        for records in source.chunks(_CHUNK):
            found = model.specificity([record.text for record in records], show_progress_bar=advance)
            numbers = zip(found.score.tolist(), found.at_length.tolist(), found.value.tolist(), strict=True)
            for record, each in zip(records, numbers, strict=True):
                total += 1
                if (below is not None and each[0] >= below) or (above is not None and each[0] <= above):
                    continue
                kept += 1
                row = {name: getattr(record, name) for name in columns if name not in _DECIMALS}
                row |= dict(zip(_DECIMALS, each, strict=True))
                ends = sorted([*ends, row], key=itemgetter("value"))
                ends = ends if len(ends) <= 2 * _SHOWN else [*ends[:_SHOWN], *ends[-_SHOWN:]]
                (waiting.append if sort else write)(row)
        if not total:
            raise Sen2ProError(f"there are no sentences in {source.name}")
        for row in sorted(waiting, key=itemgetter("value")):
            write(row)
    return ScoredFile(total, kept, ends)


def _print_ends(model: Sen2Pro, rows: list[Row]) -> None:
    """Print the vaguest and the most specific sentences; words that carry the meaning are bright."""
    from rich.table import Column, Table

    table = Table(Column("specificity", justify="right"), "sentence: the words that carry it are bright", box=None)
    for place, row in enumerate(rows):
        shaded = _shaded(model, row["text"])
        table.add_row(f"{row['specificity']:.0f}", shaded, end_section=place == len(rows) // 2 - 1)
    Console(wide=120).print(table)


def _shaded(model: Sen2Pro, text: str) -> Text:
    """Return a text for the terminal, its words shaded by how much they carry; long texts are cut."""
    from rich.text import Text

    explanation = model.explain(" ".join(text.split()[:40]))
    result = Text(overflow="ellipsis", no_wrap=True)
    for word, share in zip(explanation.words, explanation.share * len(explanation.words), strict=True):
        result.append(word, style="bold" if share > 1.5 else "" if share > 0.6 else "dim")
        result.append(" ")
    return result


@options.with_settings()
def compare(
    settings: options.Chosen,
    a: Annotated[str, Argument(help="A sentence.")],
    b: Annotated[str, Argument(help="Another sentence.")],
    everything: Annotated[bool, Option("--all", help="Print every distance and every variance too.")] = False,
) -> None:
    """Say how likely two sentences mean the same, how similar they are, and which one is vaguer."""
    from sen2pro.gaussian import FAR

    with options.notes() as gathered:
        model = options.load(**settings)
        try:
            answer = model.compare(a, b)
        except HeadMissing as error:  # no probabilities ship for this model, so only distances can be printed
            answer = None
            warnings.warn(Sen2ProWarning(str(error)), stacklevel=1)
    if answer is not None:
        Console().say(str(answer))
    if answer is None or everything:
        _print_distances(model, [a, b], gathered)
    else:
        options.report(
            gathered, options.signature_in_one_pass(model), far=int(answer.coverage < FAR), total=2,
            remedy="do not rely on this answer, or fit a head on text like this",
        )  # fmt: skip


def _print_distances(model: Sen2Pro, pair: list[str], gathered: list[Sen2ProWarning]) -> None:
    """Print all distances of two sentences, and all variances."""
    import numpy as np
    from rich.table import Column, Table
    from rich.text import Text

    from sen2pro.distances import METRICS, distance_pairwise
    from sen2pro.gaussian import is_far

    with options.notes() as more:
        parts = model.encode_sources(pair)
        both = model.join(parts)
        plain = model.encode_plain(pair).astype(np.float64)
    cosine = plain[0] @ plain[1] / max(np.linalg.norm(plain[0]) * np.linalg.norm(plain[1]), 1e-30)
    similarity = model.similarity_pairwise(both[:1], both[1:])[0]

    value = Column("value", justify="right")
    closeness = Table("measure", value, "how to read it", title="How close", title_justify="left")
    closeness.add_row("similarity", f"{similarity:.4f}", "greater is closer, 0 is identical")
    for metric in METRICS:
        distance = distance_pairwise(both[:1], both[1:], metric)[0]
        closeness.add_row(f"{metric} distance", f"{distance:.4f}", _READING.get(metric, "smaller is closer"))
    closeness.add_row("cosine", f"{cosine:.4f}", "of the plain vectors, for reference")

    columns = {**parts, "both": both} if len(parts) > 1 else parts
    variances = Table(Column("sentence", ratio=1), title="How uncertain (total variance)", title_justify="left")
    for name in columns:
        variances.add_column(name, justify="right", no_wrap=True)
    for i, sentence in enumerate(pair):
        variances.add_row(Text(sentence), *(f"{each.total_variance[i]:.4f}" for each in columns.values()))

    Console().print(closeness, variances)
    options.report([*gathered, *more], both.signature, far=int(is_far(both).sum()), total=2)
