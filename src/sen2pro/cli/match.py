"""`sen2pro match`: which pairs of a file match, at a precision that is promised."""

from __future__ import annotations

import csv
import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.files.atomic import replacing
from sen2pro.files.pairs import Pair, PairSource
from sen2pro.files.text import LONGEST_LINE
from sen2pro.progress import progress

if TYPE_CHECKING:
    from sen2pro.confidence import Encoded, MatchConfidence, Rule
    from sen2pro.types import Array64

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
    certainty: Annotated[float, Option(help="One minus the chance that the labels mislead the promise.")] = 0.95,
    overwrite: options.Overwrite = False,
    longest_line: options.LongestLine = LONGEST_LINE,
    method: options.PairMethod = "auto",
) -> None:
    """Say of each pair how likely it is a match, and call it one where the precision can be promised.

    The output has the columns first, second, probability and match. yes keeps the promise. unsure is more likely a
    match than not, but not surely enough. no is more likely none. Where no threshold keeps the promise, match is empty.

    Give the model and the settings that sen2pro calibrate had.
    """
    path = options.check_output(output, (".csv", ".tsv", ".jsonl"), [pairs], overwrite=overwrite)
    source = PairSource(pairs, longest_line=longest_line)
    number = source.count()
    if number == 0:
        raise Sen2ProError(f"there are no pairs in {pairs}")
    from sen2pro.confidence import MatchConfidence
    from sen2pro.files.encoding import far_from_head

    suffix, verdicts, far, sentences = path.suffix.lower(), Counter[str](), 0, 0
    with options.notes() as gathered:
        fitted = MatchConfidence.load(confidence, model=options.load_for_pairs(method, settings))
        rule = fitted.threshold(precision=precision, certainty=certainty)
        with (
            replacing(path) as part,
            part.open("w", encoding="utf-8", newline="") as file,
            progress(number, None, unit="pairs") as advance,
        ):
            table = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
            if suffix != ".jsonl":
                table.writerow(_NAMES)
            for chunk in source.pairs(_CHUNK):
                probabilities, encoded = _probabilities(fitted, chunk)
                far, sentences = far + far_from_head(encoded.joined), sentences + len(encoded)
                for pair, p in zip(chunk, probabilities.tolist(), strict=True):
                    word = verdict(p, rule)
                    verdicts[word] += 1
                    if suffix == ".jsonl":
                        row = (pair.text, pair.second, round(p, 6), word or None)
                        file.write(json.dumps(dict(zip(_NAMES, row, strict=True)), ensure_ascii=False) + "\n")
                    else:
                        table.writerow((pair.text, pair.second, f"{p:.6f}", word))
                advance(len(chunk))
    total = verdicts.total()
    said = f"{total} pair{'s' * (total != 1)} -> {output}: "
    if rule is None:
        said += "probabilities without a verdict"
    else:
        said += f"{verdicts['yes']} yes, {verdicts['unsure']} unsure, {verdicts['no']} no\n"
        said += (
            f"A yes starts at a probability of {rule.threshold:.4f}. At least {100 * precision:g} % of the yes are a "
            f"match, with a certainty of {100 * certainty:g} %, for pairs like those of sen2pro calibrate. Nothing is "
            "promised for a no."
        )
    Console().say(said)
    if far:
        gathered.append(
            Sen2ProWarning(
                f"{far} of {sentences} sentences are far from what the head was fitted on, another language or length "
                "for instance; their probabilities may be off. Calibrate and match with --method sampling, or with a "
                "head for such text (sen2pro distill)"
            )
        )
    options.report(options.together(gathered, sentences), fitted.signature_)


def _probabilities(fitted: MatchConfidence, pairs: list[Pair]) -> tuple[Array64, Encoded]:
    """Return the probability of each pair (n,), and the sentences that differ, encoded once."""
    from sen2pro.confidence import encode

    texts = [text for pair in pairs for text in (pair.text, pair.second)]
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    encoded = encode(fitted.model_, list(rows))
    first, second = ([rows[text] for text in texts[side::2]] for side in (0, 1))
    return fitted.probability(encoded[first], encoded[second]), encoded


def verdict(probability: float, rule: Rule | None) -> str:
    """Return yes, unsure or no, or nothing where no rule keeps the promise."""
    if rule is None:
        return ""
    return "yes" if probability >= rule.threshold else "unsure" if probability >= 0.5 else "no"
