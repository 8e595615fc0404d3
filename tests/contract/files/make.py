"""Write the files of this folder with an old release: `PYTHONPATH=<its src> python make.py FOLDER`.

It runs with the code of that release, so it may use only names that all of them have. `ENCODER` is made once, by hand:
`python -c "from make import make_encoder; make_encoder()"` in this folder, with `tests` on the path.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path

ENCODER = Path(__file__).with_name("encoder")
SENTENCES = [
    "A man is playing a guitar.",
    "They did it again.",
    "The bank raised its interest rate to 5 percent in March.",
]
IDS = ["guitar", "again", "bank"]
TINY = ["the man plays the guitar", "rain today", "the market fell and the price rose tomorrow"]
OWN = {"samples": (3, 5), "seed": 7, "pooling": "cls", "dropout": 0.3, "combine": "unified",
       "vocabulary": ["market", "rain", "music"]}  # fmt: skip
OF_THE_ENCODER = (
    "config",
    "tokenizer",
    "model.safetensors",
    "special_tokens",
    "modules",
    "sentence_bert",
    "1_",
    "README",
)


def make_encoder():
    """Save the tiny network of the tests."""
    from conftest import build_network, build_tokenizer

    build_network("bert").save_pretrained(ENCODER)
    build_tokenizer().save_pretrained(ENCODER)


def digests(gaussian):
    """Return what tells whether the numbers of a Gaussian are unchanged, to the last bit."""
    found = {"signature": json.loads(gaussian.signature.to_json())}
    for name in ("mean", "variance", "coverage"):
        array = getattr(gaussian, name)
        if array is not None:
            first = [float(f"{x:.7g}") for x in array.reshape(-1)[:3].tolist()]
            digest = hashlib.sha256(array.astype("<f4").tobytes()).hexdigest()[:16]
            found[name] = {"shape": list(array.shape), "first": first, "sha256": digest}
    return found


def corpus():
    """Return sentences in the words of the tiny network."""
    words = [word for word in json.loads((ENCODER / "tokenizer.json").read_text())["model"]["vocab"] if len(word) > 1]
    words = [word for word in words if word.isalpha()]
    draw = random.Random(0)
    return [" ".join(draw.choices(words, k=draw.randint(2, 12))) for _ in range(400)]


def gaussians(folder, content):
    """Write Gaussian files: by the command line, and from Python."""
    from sen2pro import Gaussian, Sen2Pro

    try:
        from sen2pro.gaussian import read
    except ModuleNotFoundError:  # 0.5
        read = import_module("sen2pro.storage").read
    rows = [f"{id},{text},{len(text)}" for id, text in zip(IDS, SENTENCES, strict=True)]
    with tempfile.TemporaryDirectory() as place:
        table = Path(place, "in.csv")
        table.write_text("\n".join(["id,text,length", *rows]) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "sen2pro", "encode", str(table)]
        subprocess.run([*command, str(folder / "sampling.parquet"), "--id-column", "id"], check=True)
        if (Path(sys.modules["sen2pro"].__file__).parent / "scale").is_dir():  # since 0.10
            more = ["--id-column", "id", "--keep-column", "length", "--shards", "--method", "one-pass"]
            subprocess.run([*command, str(folder / "shards"), *more], check=True)
    one_pass = Sen2Pro(method="one-pass").encode(SENTENCES)
    one_pass.save(folder / "one-pass.safetensors")
    one_pass[0].save(folder / "single.parquet", ids=IDS[:1], texts=SENTENCES[:1])
    for name in ("sampling.parquet", "one-pass.safetensors", "single.parquet", "shards"):
        if (folder / name).exists():
            stored = read(folder / name)
            content[name] = {**digests(Gaussian.load(folder / name)), "ids": stored.ids, "texts": stored.texts}


def models(folder, content):
    """Save a head and two models; what belongs to the encoder is left out, since it stands beside."""
    from sen2pro import Sen2Pro

    one_pass = Sen2Pro(str(ENCODER)).distill(corpus(), samples=8, verbose=False)
    whitened = Sen2Pro(str(ENCODER), **OWN).fit_whitening(corpus(), dim=8)
    for name, model in {"head": one_pass, "whitened": whitened}.items():
        with tempfile.TemporaryDirectory() as place:
            model.save(Path(place, "model"))
            (folder / name).mkdir()
            for path in Path(place, "model").iterdir():
                if not path.name.startswith(OF_THE_ENCODER):
                    (folder / name / path.name).write_bytes(path.read_bytes())
        g = model.encode(TINY)
        content[name] = {
            "signature": json.loads(g.signature.to_json()), "mean": g.mean.tolist(), "variance": g.variance.tolist(),
            "coverage": None if g.coverage is None else g.coverage.tolist(),
        }  # fmt: skip
    content["head"]["specificity"] = one_pass.specificity(TINY).value.tolist()


def main():
    """Write all files of this release."""
    warnings.simplefilter("ignore")
    import sen2pro

    folder, content = Path(sys.argv[1]), {"version": sen2pro.__version__}
    folder.mkdir()
    gaussians(folder, content)
    if (Path(sen2pro.__file__).parent / "scale").is_dir():  # since 0.10: heads of older releases need not be read
        models(folder, content)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in content.items())
    (folder / "content.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
