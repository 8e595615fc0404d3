"""`sen2pro demo`: the main job on a dozen sentences, as a table and a picture."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import HeadMissing

# Each topic has three sentences of about the same length: two exact ones and a vague one.
TOPICS = [topic for topic in ("music", "weather", "finance", "cooking") for _ in range(3)]
SENTENCES = [
    "A young man plays the guitar on a street corner.",
    "On the corner of the street, a guitarist is performing.",
    "Somebody is doing something musical at some place or other.",
    "Heavy rain is expected along the coast late tonight.",
    "Late tonight the coastal region will see much rainfall.",
    "There may be a bit of that weather later on.",
    "The bank raised its interest rate again this year.",
    "This year, borrowing money at the bank became dearer again.",
    "They have put that up again, as they always do.",
    "Simmer the tomatoes with garlic until the sauce is thick.",
    "Cook tomatoes and garlic gently for a thick sauce.",
    "Leave it all in there for as long as it takes.",
]


@options.with_settings("model", "samples", "seed")
def demo(
    settings: options.Chosen,
    output: Annotated[str, Option("--output", "-o", help="Where to put the picture.")] = "sen2pro_demo.png",
) -> None:
    """Show what sen2pro does, on a dozen sentences: a table and a picture."""
    import numpy as np
    from rich.table import Column, Table

    path = options.check_output(output, (".png", ".svg", ".pdf"))
    with options.notes() as gathered:
        model = options.load(**settings)
        parts = model.encode_sources(SENTENCES)
        both = model.join(parts)
        try:
            scores = [f"{score:.0f}" for score in model.specificity(SENTENCES).score]
        except HeadMissing:  # another model, without fitted percentiles
            scores = []
    similarity = model.similarity(both, both)
    np.fill_diagonal(similarity, -np.inf)
    nearest = similarity.argmax(axis=1)
    right = [TOPICS[j] == TOPICS[i] for i, j in enumerate(nearest)]

    table = Table(
        Column(justify="right"), Column("sentence", ratio=1),
        *([Column("specificity", justify="right")] if scores else []), "nearest",
        *(Column(name, justify="right") for name in parts),
        title="A dozen sentences as Gaussians: four topics, each said in three ways", title_justify="left",
    )  # fmt: skip
    for i, (sentence, j) in enumerate(zip(SENTENCES, nearest, strict=True)):
        mark = f"[green]{j + 1:2d} ✓[/]" if right[i] else f"[red]{j + 1:2d} ✗ {TOPICS[j]}[/]"
        variances = (f"{each.total_variance[i]:.3f}" for each in parts.values())
        table.add_row(str(i + 1), sentence, *scores[i : i + 1], mark, *variances, end_section=i % 3 == 2)
    console = Console()
    console.print(table)
    topics = f"The nearest sentence has the same topic for {sum(right)} of {len(SENTENCES)}."
    meaning = "model, data: total variances; what dropout changes, and what editing one word changes."
    vague = "The third of each topic is the vague one, at the same length."
    specific = "specificity: 80 means more specific than 80 % of English sentences.\n" if scores else ""
    console.print(f"{vague} {topics}\n{specific}{meaning}", highlight=False)
    if find_spec("matplotlib") is None:
        console.print("No picture: matplotlib is missing. pip install 'sen2pro\\[plot]'", style="yellow")
    else:
        _draw(both, path)
        console.say(f"picture: {output}")
    options.report(gathered, both.signature)


def _draw(gaussian: Any, path: Path) -> None:
    """Project onto the two main directions of the means and draw one and two standard deviations as ellipses."""
    import numpy as np
    from matplotlib.patches import Ellipse

    from sen2pro.calibration.report import panels
    from sen2pro.server.mapping import ellipses, project

    points, covariances = project(gaussian)
    figure, (plot, legend) = panels(2, 6, 6)
    for i, ((x, y), (long, short, angle)) in enumerate(zip(points, ellipses(covariances), strict=True)):
        topic, number = i // 3, f"{i + 1}"
        colour = f"C{topic}"
        for scale, alpha in ((2, 0.12), (1, 0.3)):  # two standard deviations, and one
            shape = Ellipse((x, y), scale * long, scale * short, angle=angle, color=colour, alpha=alpha, linewidth=0)
            plot.add_patch(shape)
        plot.plot(x, y, ".", color=colour, markersize=3)
        others = points[i] - np.delete(points, i, axis=0)
        away = others[np.linalg.norm(others, axis=1).argmin()]
        aside = 11 * away / np.linalg.norm(away)  # the number stands on the far side of the nearest point
        plot.annotate(number, (x, y), textcoords="offset points", xytext=aside, ha="center", va="center", fontsize=9)
        line = 1 - (i + 1.2 * topic) / (len(SENTENCES) + 3)
        legend.text(0.05, line, number, color=colour, ha="right", va="top", weight="bold", fontsize=9.5)
        legend.text(0.08, line, SENTENCES[i], va="top", fontsize=9.5)
    plot.set_title("Sentences as Gaussians: the vaguer, the wider (3, 6, 9, 12)", loc="left", weight="bold")
    plot.set_aspect("equal", adjustable="datalim")
    plot.autoscale_view()
    label = "first and second principal direction of the means; ellipses: 1 and 2 standard deviations"
    plot.set_xlabel(label, fontsize=8)
    plot.tick_params(labelsize=8)
    legend.axis("off")
    figure.savefig(path, dpi=110)
