"""Draw docs/specificity.png: people's ratings against the score of one pass, on three rated sets.

python -m sen2pro_lab.benchmarks.specificity_chart      # SEN2PRO_DATA names the folder of evaluation data
"""

from __future__ import annotations

import numpy as np

from sen2pro import Sen2Pro
from sen2pro.calibration.report import panels
from sen2pro_lab.benchmarks.common import ROOT
from sen2pro_lab.contests.specificity import read_rated

TARGET = ROOT / "docs" / "specificity.png"
SETS = {
    "twitter": "984 tweets",
    "movie": "920 sentences of film reviews",
    "tweets_test": "1,000 other tweets",
}


def main() -> None:
    model = Sen2Pro("all-MiniLM-L6-v2")
    figure, (axes,) = panels(1, 7.8, 4.7)
    for name, title in SETS.items():
        texts, ratings = read_rated(name, None)
        scores = model.specificity(texts).score
        tenths = np.array_split(np.argsort(scores, kind="stable"), 10)
        x, y = ([float(each[rows].mean()) for rows in tenths] for each in (scores, ratings))
        error = [1.96 * ratings[rows].std(ddof=1) / len(rows) ** 0.5 for rows in tenths]
        axes.errorbar(x, y, yerr=error, marker="o", markersize=6, capsize=2.5, linewidth=1.2, label=title)
    axes.set_xlabel("specificity score of one pass, without labels (tenths of each set)")
    axes.set_ylabel("people's rating, 1 to 5")
    axes.set_title("The more specific the score, the more specific people find the text", loc="left", weight="bold")
    axes.legend(frameon=False)
    figure.savefig(TARGET, dpi=100)
    print(f"-> {TARGET}")


if __name__ == "__main__":
    main()
