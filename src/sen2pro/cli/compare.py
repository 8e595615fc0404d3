"""`sen2pro compare`: two sentences side by side."""

import warnings
from typing import Annotated, Any

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import HeadMissing, Sen2ProWarning

_SPREAD = "not 0 for identical sentences: it counts their spread"
_READING = {
    "sen2pro": "smaller is closer; Eq. 6 of the paper", "expected-cosine": _SPREAD, "expected-l2": _SPREAD
}  # fmt: skip


@options.with_settings()
def compare(
    settings: dict[str, Any],
    a: Annotated[str, Argument(help="A sentence.")],
    b: Annotated[str, Argument(help="Another sentence.")],
    everything: Annotated[bool, Option("--all", help="Print every distance and every variance too.")] = False,
) -> None:
    """Say how likely two sentences mean the same, how similar they are, and which is the vaguer one."""
    from sen2pro.gaussian import FAR

    with options.notes() as gathered:
        model = options.load(**settings)
        try:
            answer = model.compare(a, b)
        except HeadMissing as error:  # no numbers ship for this model, so the distances are all there is
            answer = None
            warnings.warn(Sen2ProWarning(str(error)), stacklevel=1)
    if answer is not None:
        Console().say(str(answer))
    if answer is None or everything:
        _measures(model, a, b, gathered)
    else:
        options.report(gathered, options.signature_in_one_pass(model), far=int(answer.coverage < FAR), total=2)


def _measures(model: Any, a: str, b: str, gathered: list[Sen2ProWarning]) -> None:
    """Print all distances of two sentences, and all variances."""
    import numpy as np
    from rich.table import Column, Table
    from rich.text import Text

    from sen2pro.distances import METRICS, distance_pairwise
    from sen2pro.gaussian import is_far

    with options.notes() as more:
        parts = model.encode_sources([a, b])
        both = model.join(parts)
        plain = model.encode_plain([a, b]).astype(np.float64)
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
    doubt = Table(Column("sentence", ratio=1), title="How uncertain (total variance)", title_justify="left")
    for name in columns:
        doubt.add_column(name, justify="right", no_wrap=True)
    for i, sentence in enumerate((a, b)):
        doubt.add_row(Text(sentence), *(f"{each.total_variance[i]:.4f}" for each in columns.values()))

    Console().print(closeness, doubt)
    options.report([*gathered, *more], both.signature, far=int(is_far(both).sum()), total=2)
