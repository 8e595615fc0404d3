"""`sen2pro match`: which pairs of a file match, at a precision that is promised."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from typer import Argument, Option

from sen2pro.calibration.guarantee import CERTAINTY
from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.io.atomic import replacing
from sen2pro.io.inputs import pairs as read_pairs
from sen2pro.io.rows import LONGEST_LINE
from sen2pro.progress import progress

_CHUNK = 256  # pairs in memory at once
_NAMES = ("first", "second", "probability", "match")


@options.with_settings(without=("method", "precision"))
def match(
    settings: dict[str, Any],
    pairs: Annotated[
        str, Argument(help="CSV, TSV, JSONL or Parquet with the columns first and second.", metavar="PAIRS")
    ],
    output: Annotated[str, Argument(help="A .csv, .tsv or .jsonl file.", metavar="OUT")],
    confidence: Annotated[str, Option(help="The folder that sen2pro calibrate wrote.")],
    precision: Annotated[float, Option(help="The least share of the pairs called a match that are one.")] = 0.95,
    certainty: options.Certainty = CERTAINTY,
    uncovered: Annotated[
        bool, Option("--uncovered", help="Allow a yes for text unlike all that the head knows: another language, ...")
    ] = False,
    overwrite: options.Overwrite = False,
    longest_line: options.LongestLine = LONGEST_LINE,
    method: options.PairMethod = "auto",
) -> None:
    """Say of each pair how likely it is a match, and call it one where the precision can be promised.

    The output has the columns first, second, probability and match. yes keeps the promise. unsure is more likely a
    match than not, but not surely enough, or its text is unlike all that the head knows. no is more likely none. Where
    no threshold keeps the promise, match is empty. The promise does not hold for pairs that sen2pro calibrate had.

    Give the model and the settings that sen2pro calibrate had.
    """
    path = options.check_output(output, (".csv", ".tsv", ".jsonl"), [pairs], overwrite=overwrite)
    source = read_pairs(pairs, longest_line=longest_line)
    number = source.count()
    if number == 0:
        raise Sen2ProError(f"there are no pairs in {pairs}")
    from sen2pro.calibration import MatchConfidence

    suffix, verdicts, far, known = path.suffix.lower(), Counter[str](), Counter[str](), 0
    with options.notes() as gathered:
        fitted = MatchConfidence.load(confidence, model=options.load_for_pairs(method, settings))
        rule = fitted.threshold(precision=precision, certainty=certainty, uncovered=uncovered)
        with (
            replacing(path, overwrite=overwrite) as part,
            part.open("w", encoding="utf-8", newline="") as file,
            progress(number, None, unit="pairs") as advance,
        ):
            table = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
            if suffix != ".jsonl":
                table.writerow(_NAMES)
            for chunk in source.chunks(_CHUNK):
                sides = [pair.text for pair in chunk], [pair.second for pair in chunk]
                found = fitted.match(*sides, rule, uncovered=uncovered)
                for pair, p, word in zip(chunk, found.probability.tolist(), found.verdict, strict=True):
                    if suffix == ".jsonl":
                        row = (pair.text, pair.second, round(p, 6), word or None)
                        file.write(json.dumps(dict(zip(_NAMES, row, strict=True)), ensure_ascii=False) + "\n")
                    else:
                        table.writerow((pair.text, pair.second, f"{p:.6f}", word))
                verdicts.update(found.verdict)
                far.update(word for word, is_far in zip(found.verdict, found.uncovered, strict=True) if is_far)
                known += 0 if found.fitted_on is None else int(found.fitted_on.sum())
                advance(len(chunk))
    total = verdicts.total()
    said = f"{total} pair{'s' * (total != 1)} -> {output}: "
    if rule is None:
        said += "probabilities without a verdict"
    else:
        withheld = f" ({far['unsure']} of text that the head does not know)" if far["unsure"] else ""
        said += f"{verdicts['yes']} yes, {verdicts['unsure']} unsure{withheld}, {verdicts['no']} no\n"
        said += (
            f"A yes starts at a probability of {rule.threshold:.4f}. At least {100 * precision:g} % of the yes are a "
            f"match, with a certainty of {100 * certainty:g} %, for pairs like those of sen2pro calibrate. Nothing is "
            "promised for a no."
        )
    Console().say(said)
    withholds = rule is not None and not uncovered
    gathered += map(Sen2ProWarning, _about(total, far.total(), known, fitted.state.digests is None, withholds))
    options.report(options.together(gathered, 2 * total), fitted.signature)


def _about(total: int, far: int, known: int, unknown: bool, withholds: bool) -> Iterator[str]:
    """Yield what is to be said of pairs for which the promise does not hold."""
    if known:
        yield (
            f"{known} of {total} pairs were among those of sen2pro calibrate, and their probabilities are too sure. No "
            "promise holds for them, so leave them out when you count"
        )
    elif unknown:
        yield "this confidence does not say which pairs it has learned from ; calibrate again"
    if far:
        yield (
            f"{far} of {total} pairs have a sentence far from what the head was fitted on, of another language or "
            "length for instance; their probabilities may be off"
            + (", so none of them is a yes (--uncovered allows it)" if withholds else "")
            + ". Calibrate and match with --method sampling, or with a head for such text (sen2pro distill)"
        )
