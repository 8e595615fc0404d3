"""`sen2pro calibrate`: learn from labelled pairs how likely two sentences match."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.io.atomic import check_path
from sen2pro.io.inputs import pairs as read_pairs
from sen2pro.io.rows import LONGEST_LINE

if TYPE_CHECKING:
    from sen2pro.calibration import MatchConfidence

PICTURE = "reliability.png"
_PRECISIONS = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@options.with_settings(without=("method", "precision"))
def calibrate(
    settings: dict[str, Any],
    pairs: Annotated[
        str, Argument(help="CSV, TSV, JSONL or Parquet with the columns first, second and label.", metavar="PAIRS")
    ],
    folder: Annotated[str, Argument(help="A new folder for what was learned, and a picture.", metavar="FOLDER")],
    match_from: Annotated[
        float | None, Option(help="For graded labels: the least grade of a match. (default: labels are 1 and 0)")
    ] = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    method: options.PairMethod = "auto",
) -> None:
    """Learn from labelled pairs how likely two sentences match: 50 pairs are a start, 20 the least.

    Prints how good the probabilities are on pairs not learned from, with the distribution and without, and which
    precision can be promised. Use what was learned with sen2pro match.
    """
    target = check_path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Sen2ProError(f"{target} is not an empty folder; name a new one")
    found = list(read_pairs(pairs, with_labels=True, longest_line=longest_line))
    from sen2pro.calibration import MatchConfidence

    with options.notes() as gathered:
        model = options.load_for_pairs(method, settings)
        confidence = MatchConfidence(match_from=match_from).fit(
            model, [pair.text for pair in found], [pair.second for pair in found], [pair.label for pair in found]
        )
    confidence.save(target)
    console = Console()
    console.say(f"{len(found)} pairs -> {target}\n\nOn pairs not learned from:\n{confidence.report()}\n")
    console.say("Precision that can be promised for new pairs of this kind, each for itself with a certainty of 95 %:")
    for precision in _PRECISIONS:
        console.say(f"  {precision:<6g}{_promised(confidence, precision)}")
    if find_spec("matplotlib") is not None:
        confidence.plot(target / PICTURE)
        console.say(f"\nreliability diagram: {target / PICTURE}")
    else:
        console.say("\nno reliability diagram: it needs matplotlib (pip install 'sen2pro[plot]')")
    options.report(gathered, confidence.signature)


def _promised(confidence: MatchConfidence, precision: float) -> str:
    """Say from which probability on a pair is called a match, or why none can be."""
    with options.notes() as reasons:
        rule = confidence.threshold(precision=precision)
    if rule is None:
        return "none: " + "; ".join(str(reason).partition(": ")[2] for reason in reasons)
    return f"match from a probability of {rule.threshold:.4f} on: {100 * rule.share:.1f} % of the pairs"
