"""`sen2pro calibrate` and `sen2pro match`: calibrated probabilities of pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.io.atomic import check_new_folder
from sen2pro.io.inputs import pairs as read_pairs
from sen2pro.io.rows import LONGEST_LINE
from sen2pro.io.tables import SUFFIXES, new_table
from sen2pro.progress import progress
from sen2pro.settings import CERTAINTY

if TYPE_CHECKING:
    from sen2pro.calibration import MatchConfidence
    from sen2pro.calibration.guarantee import Rule

PICTURE = "reliability.png"
_PRECISIONS = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_CHUNK = 256  # pairs in memory at once
_COLUMNS = {"first": None, "second": None, "probability": 6, "match": None}


@options.with_settings(without=("method", "precision"))
def calibrate(
    settings: options.Chosen,
    pairs: Annotated[
        str, Argument(help="CSV, TSV, JSONL or Parquet with the columns first, second and label.", metavar="PAIRS")
    ],
    folder: Annotated[str, Argument(help="A new folder for the confidence and a picture.", metavar="FOLDER")],
    match_from: Annotated[
        float | None, Option(help="For graded labels: the lowest grade of a match. (default: labels are 1 and 0)")
    ] = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    method: options.PairMethod = "auto",
) -> None:
    """Fit on labelled pairs how likely two sentences match: 20 pairs at least, better 50.

    Prints the quality of the probabilities on held-out pairs, with and without the distribution, and the precisions
    that can be guaranteed. Use the result with sen2pro match.
    """
    target = check_new_folder(folder)
    found = list(read_pairs(pairs, with_labels=True, longest_line=longest_line))
    from sen2pro.calibration import MatchConfidence

    with options.notes() as gathered:
        model = options.load_for_pairs(method, settings)
        confidence = MatchConfidence(match_from=match_from).fit(
            model, [pair.text for pair in found], [pair.second for pair in found], [pair.label for pair in found]
        )
    confidence.save(target)
    console = Console()
    console.say(f"{len(found)} pairs -> {target}\n\nOn held-out pairs:\n{confidence.report()}\n")
    console.say("Precision that can be guaranteed for new pairs of this kind, each with a confidence level of 95 %:")
    for precision in _PRECISIONS:
        console.say(f"  {precision:<6g}{_guaranteed(confidence, precision)}")
    if find_spec("matplotlib") is not None:
        confidence.plot(target / PICTURE)
        console.say(f"\nreliability diagram: {target / PICTURE}")
    else:
        console.say("\nno reliability diagram: it needs matplotlib (pip install 'sen2pro[plot]')")
    options.report(gathered, confidence.signature)


def _guaranteed(confidence: MatchConfidence, precision: float) -> str:
    """Say from which probability on a pair counts as a match, or why there is no such threshold."""
    with options.notes() as reasons:
        rule = confidence.threshold(precision=precision)
    if rule is None:
        return "none: " + "; ".join(str(reason).partition(": ")[2] for reason in reasons)
    return f"match from a probability of {rule.threshold:.4f} on: {100 * rule.share:.1f} % of the pairs"


@options.with_settings(without=("method", "precision"))
def match(
    settings: options.Chosen,
    pairs: Annotated[
        str, Argument(help="CSV, TSV, JSONL or Parquet with the columns first and second.", metavar="PAIRS")
    ],
    output: Annotated[str, Argument(help="A .csv, .tsv or .jsonl file.", metavar="OUT")],
    confidence: Annotated[str, Option(help="The folder that sen2pro calibrate wrote.")],
    precision: Annotated[float, Option(help="Minimum share of true matches among the pairs marked yes.")] = 0.95,
    certainty: options.Certainty = CERTAINTY,
    uncovered: Annotated[
        bool, Option("--uncovered", help="Allow a yes for text that the head does not know, such as another language.")
    ] = False,
    overwrite: options.Overwrite = False,
    longest_line: options.LongestLine = LONGEST_LINE,
    method: options.PairMethod = "auto",
) -> None:
    """Write for each pair how likely it is a match, and mark it yes where the precision is guaranteed.

    The output has the columns first, second, probability and match. yes keeps the guarantee. unsure is more likely a
    match than not, but below the threshold or in text that the head does not know. no is more likely not a match. match
    is empty if no threshold keeps the guarantee. The guarantee does not hold for pairs used by sen2pro calibrate.

    Pass the same model and settings as to sen2pro calibrate.
    """
    path = options.check_output(output, SUFFIXES, [pairs], overwrite=overwrite)
    source = read_pairs(pairs, longest_line=longest_line)
    number = source.count()
    if number == 0:
        raise Sen2ProError(f"there are no pairs in {pairs}")
    from sen2pro.calibration import MatchConfidence

    verdicts, far, known = Counter[str](), Counter[str](), 0  # far: verdicts of pairs that the head does not know
    with options.notes() as gathered:
        fitted = MatchConfidence.load(confidence, model=options.load_for_pairs(method, settings))
        rule = fitted.threshold(precision=precision, certainty=certainty, uncovered=uncovered)
        with new_table(path, _COLUMNS, overwrite=overwrite) as write, progress(number, None, unit="pairs") as advance:
            for chunk in source.chunks(_CHUNK):
                sides = [pair.text for pair in chunk], [pair.second for pair in chunk]
                found = fitted.match(*sides, rule, uncovered=uncovered)
                for *row, verdict in zip(*sides, found.probability.tolist(), found.verdict, strict=True):
                    write(dict(zip(_COLUMNS, (*row, verdict or None), strict=True)))
                verdicts.update(found.verdict)
                far.update(word for word, is_far in zip(found.verdict, found.uncovered, strict=True) if is_far)
                known += 0 if found.fitted_on is None else int(found.fitted_on.sum())
                advance(len(chunk))
    total = verdicts.total()
    Console().say(f"{total} pair{'s' * (total != 1)} -> {output}: {_summary(verdicts, far, rule, certainty)}")
    withheld = ", so none of them is a yes (--uncovered allows it)" if rule is not None and not uncovered else ""
    is_unknown = fitted.state.digests is None
    gathered += map(Sen2ProWarning, _warnings(total, None if is_unknown else known, far.total(), withheld))
    options.report(options.together(gathered, 2 * total), fitted.signature)


def _summary(verdicts: Counter[str], far: Counter[str], rule: Rule | None, certainty: float) -> str:
    if rule is None:
        return "probabilities without a verdict"
    withheld = f" ({far['unsure']} of text that the head does not know)" if far["unsure"] else ""
    return (
        f"{verdicts['yes']} yes, {verdicts['unsure']} unsure{withheld}, {verdicts['no']} no\n"
        f"A yes starts at a probability of {rule.threshold:.4f}. At least {100 * rule.target:g} % of the yes are a "
        f"match, with a confidence level of {100 * certainty:g} %, for pairs like those of sen2pro calibrate. Nothing "
        "is guaranteed for a no."
    )


def _warnings(total: int, known: int | None, far: int, withheld: str) -> Iterator[str]:
    """Yield the warnings about pairs for which the guarantee does not hold."""
    if known:
        yield (
            f"{known} of {total} pairs were among those of sen2pro calibrate, so their probabilities are "
            "overconfident. The guarantee does not hold for them; leave them out when you count"
        )
    elif known is None:
        yield "this confidence does not list the pairs it was fitted on; calibrate again"
    if far:
        yield (
            f"{far} of {total} pairs have a sentence far from the text that the head was fitted on, such as another "
            f"language or length; their probabilities may be wrong{withheld}. Calibrate and match with --method "
            "sampling, or with a head for such text (sen2pro distill)"
        )
