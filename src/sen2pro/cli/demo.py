"""`sen2pro demo`: the main job on a dozen sentences, as a table and a picture."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from sen2pro.cli.options import load, notes, report
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError, one_of
from sen2pro.gaussian import Gaussian

# Four topics, each said in three ways of about the same length: twice exactly, and once vaguely.
SENTENCES = {
    "music": (
        "A young man plays the guitar on a street corner.",
        "On the corner of the street, a guitarist is performing.",
        "Somebody is doing something musical at some place or other.",
    ),
    "weather": (
        "Heavy rain is expected along the coast late tonight.",
        "Late tonight the coastal region will see much rainfall.",
        "There may be a bit of that weather later on.",
    ),
    "finance": (
        "The bank raised its interest rate again this year.",
        "This year, borrowing money at the bank became dearer again.",
        "They have put that up again, as they always do.",
    ),
    "cooking": (
        "Simmer the tomatoes with garlic until the sauce is thick.",
        "Cook tomatoes and garlic gently for a thick sauce.",
        "Leave it all in there for as long as it takes.",
    ),
}


def run(output: str, *, settings: dict[str, Any]) -> None:
    """Encode the sentences, print a table, draw a picture."""
    topics = [topic for topic, sentences in SENTENCES.items() for _ in sentences]
    sentences = [sentence for group in SENTENCES.values() for sentence in group]
    one_of("picture suffix", Path(output).suffix.lower(), (".png", ".svg", ".pdf"))
    if not Path(output).parent.is_dir():
        raise Sen2ProError(f"there is no folder {Path(output).parent}")
    with notes() as gathered:
        model = load(**settings)
        parts = model.encode_sources(sentences)
        both = model.join(parts)
    similarity = model.similarity(both, both)
    np.fill_diagonal(similarity, -np.inf)
    nearest = similarity.argmax(axis=1)

    console = Console()
    table = Table(title="A dozen sentences as Gaussians: four topics, each said in three ways", title_justify="left")
    for name, right in (
        ("", True),
        ("sentence", False),
        ("nearest", False),
        ("uncertainty", True),
        ("model", True),
        ("data", True),
    ):
        table.add_column(name, justify="right" if right else "left", ratio=1 if name == "sentence" else None)
    for i, sentence in enumerate(sentences):
        right_topic = topics[nearest[i]] == topics[i]
        mark = (
            f"[green]{nearest[i] + 1:2d} ✓[/]" if right_topic else f"[red]{nearest[i] + 1:2d} ✗ {topics[nearest[i]]}[/]"
        )
        numbers = (both, parts["model"], parts["data"])
        table.add_row(
            str(i + 1), sentence, mark, *(f"{g.total_variance[i]:.3f}" for g in numbers), end_section=i % 3 == 2
        )
    console.print(table)
    found = sum(topics[j] == topics[i] for i, j in enumerate(nearest))
    console.print(
        f"The nearest sentence has the same topic for {found} of {len(sentences)}. The third of each topic is the "
        "vague one, at the same length.\n"
        "uncertainty = total variance; 'model' is what dropout changes, 'data' what editing one word changes.",
        highlight=False,
    )
    if find_spec("matplotlib") is None:
        console.print("No picture: matplotlib is missing. pip install 'sen2pro\\[plot]'", style="yellow")
    else:
        draw(both, sentences, topics, Path(output))
        console.print(f"picture: {output}", markup=False, highlight=False, soft_wrap=True)
    report(gathered, both.signature)


def draw(gaussian: Gaussian, sentences: list[str], topics: list[str], path: Path) -> None:
    """Project onto the two main directions of the means and draw one and two standard deviations as ellipses."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Ellipse

    centre = gaussian.mean.mean(axis=0)
    axes = np.linalg.svd(gaussian.mean - centre, full_matrices=False)[2][:2]  # (2, k)
    points = (gaussian.mean - centre) @ axes.T
    names = list(dict.fromkeys(topics))
    figure, (plot, legend) = plt.subplots(1, 2, figsize=(12, 6), dpi=110, width_ratios=(1.15, 1), layout="constrained")
    for i, (x, y) in enumerate(points):
        values, vectors = np.linalg.eigh(axes @ (gaussian.variance[i, :, None] * axes.T))
        colour = f"C{names.index(topics[i])}"
        for deviations, alpha in ((2, 0.12), (1, 0.3)):
            width, height = 2 * deviations * np.sqrt(values)
            angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
            plot.add_patch(Ellipse((x, y), width, height, angle=angle, color=colour, alpha=alpha, linewidth=0))
        plot.plot(x, y, ".", color=colour, markersize=3)
        others = points[i] - np.delete(points, i, axis=0)
        away = others[np.linalg.norm(others, axis=1).argmin()]
        aside = 11 * away / np.linalg.norm(away)  # the number stands on the far side of the nearest point
        plot.annotate(
            f"{i + 1}", (x, y), textcoords="offset points", xytext=aside, ha="center", va="center", fontsize=9
        )
        line = 1 - (i + 1.2 * names.index(topics[i])) / (len(sentences) + 3)
        legend.text(0.05, line, f"{i + 1}", color=colour, ha="right", va="top", weight="bold", fontsize=9.5)
        legend.text(0.08, line, sentences[i], va="top", fontsize=9.5)
    plot.set_title("Sentences as Gaussians: the vaguer, the wider (3, 6, 9, 12)", loc="left", weight="bold")
    plot.set_aspect("equal", adjustable="datalim")
    plot.autoscale_view()
    plot.set_xlabel(
        "first and second principal direction of the means; ellipses: 1 and 2 standard deviations", fontsize=8
    )
    plot.spines[["top", "right"]].set_visible(False)
    plot.tick_params(labelsize=8)
    legend.axis("off")
    figure.savefig(path)
    plt.close(figure)
