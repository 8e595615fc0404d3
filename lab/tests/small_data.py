"""A folder of evaluation data made in code: every set, a few rows each, in words that the tiny tokenizer knows."""

import json
import random

from labelled_texts import SUBJECTS, sentences


def table(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join("\t".join(map(str, row)) for row in [header, *rows]) + "\n", encoding="utf-8")


def objects(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_sts(folder, name, count=24, subtasks=("x", "y")):
    """Write pairs whose score is the number of words they share: something an encoder can find."""
    texts = sentences(2 * count, seed=sum(map(ord, name)))
    rows = []
    for i, (a, b) in enumerate(zip(texts[::2], texts[1::2], strict=True)):
        score = 1 + 4 * len(set(a.split()) & set(b.split())) / max(len(a.split()), len(b.split()))
        rows.append((subtasks[i % len(subtasks)], f"{score:.3f}", a, b))
    table(folder / f"sts/{name}.tsv", ("subtask", "score", "sentence1", "sentence2"), rows)


def write_classification(folder):
    """Write two of the sets: enough for ten examples of each class, not for two hundred."""
    for name, classes in (("ag_news", 4), ("imdb", 2)):
        texts, whole = iter(sentences(200, seed=classes)), []
        for split, count in (("train", 12), ("val", 5), ("test", 8)):
            marks = ("no", "music", "price", "rain")  # one word of each class: something an encoder can find
            rows = [
                {"label": i % classes, "text": f"{marks[i % classes]} {next(texts)}"} for i in range(count * classes)
            ]
            objects(folder / f"textcls/{name}_{split}.jsonl", rows)
            whole += rows if split != "test" else rows[:1]
        if (
            name == "imdb"
        ):  # the whole training set holds the validation set and some of the test set, as it does in life
            objects(folder / "textcls/imdb_train_full.jsonl", [*whole, {"label": 0, "text": "no more"}])


def write_all(folder):
    """Write every set."""
    for name in ("sts12", "sts13", "sts14", "sts15", "stsb_test"):  # two of the paper's are missing, as is usual
        write_sts(folder, name)
    texts = sentences(60, seed=5)
    table(folder / "evalrank/background_sent.tsv", ("sentence",), [(t,) for t in texts])
    pairs = [(texts[i], texts[i + 1]) for i in range(0, 24, 2)]
    table(folder / "evalrank/pos_pair.tsv", ("sentence1", "sentence2"), pairs)
    quadruples = [("not", f"{a} is not big", f"{a} is big", f"{b} is not red", f"{b} is red")
                  for a in SUBJECTS[:4] for b in SUBJECTS[:4] if a != b]  # fmt: skip
    table(folder / "analogy/sick_quadruples.tsv", ("relation", "a", "b", "c", "d"), quadruples)
    draw = random.Random(1)
    for name in ("paper_daily_h", "paper_convai2", "paper_empathetic", "grade_convai2"):
        rows = []
        for item, (reference, other) in enumerate(zip(sentences(8, 7), sentences(8, 8), strict=True)):
            for system, response in (
                ("good", reference),
                ("fair", other),
                ("poor", "no"),
                ("odd", reference[:-3] + "to"),
            ):
                rows.append(
                    {"item": item, "system": system, "reference": reference, "response": response,
                     "human": {"good": 5, "fair": 3, "poor": 1, "odd": 4}[system] + draw.random()}
                )  # fmt: skip
        objects(folder / f"dialogue/{name}.jsonl", rows)
    references, names = sentences(10, 9), ("first", "second", "third", "fourth")
    outputs = [references, sentences(10, 10), sentences(10, 11), [r[::-1] for r in references]]
    rows = [(i + 1, references[i], *(o[i] for o in outputs)) for i in range(10)]
    table(folder / "wmt17/cs-en.tsv", ("sid", "reference", *names), rows)
    scores = [("cs-en", system, score) for system, score in zip(names, (0.9, 0.2, 0.1, -0.5), strict=True)]
    table(folder / "wmt17/da_sys.tsv", ("lp", "system", "human"), scores)
    segments = [
        {"lp": "cs-en", "reference": r, "hypothesis": h, "human": 1.0 * (r == h) + draw.random()}
        for r, h in zip(references * 2, references + outputs[1], strict=True)
    ]
    objects(folder / "wmt17/da_seg.jsonl", segments)
    write_classification(folder)
    return folder
