"""The folder of an index: a spoiled one is refused, or holds what it held; a forged one cannot lead FAISS astray."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import xxhash

from fuzz import originals
from fuzz.engine import Case, Family, Wrong
from fuzz.mutations import rewritten, spelled, spoiled
from fuzz.stored import forged_tensors, other_tensors
from sen2pro.io import documents
from sen2pro.search import Index
from sen2pro.search.stores import faiss_folder

QUERIES = ["the dog runs", "a cat"]


@cache
def original() -> tuple[dict[str, bytes], list[Any]]:
    """Return the files of an index with a graph, and what it finds."""
    words = "the a man woman dog cat plays runs eats sees guitar ball park house".split()
    texts = [f"{a} {b}" for a in words for b in words]
    index = Index.build(
        originals.tiny(), texts, kind="hnsw", rerank="eq6", metadata=[{"n": i} for i in range(len(texts))]
    )
    place = originals.place() / "index"
    index.save(place)
    return originals.contents(place), index.search(QUERIES, k=5)


class Indexes(Family):
    """An index, with one file spoiled or forged; digests are made anew for half of them."""

    name, weight = "index folder", 6

    def make(self, rng: Random) -> Case:
        """Return one of its files."""
        files, _ = original()
        file = rng.choice(sorted(files))
        data = files[file]
        if file == faiss_folder.FILE and rng.random() < 0.8:
            content = json.loads(data)
            content.pop(documents.DIGEST)
            return Case(spelled(rewritten(content, rng), rng), {"file": file, "signed": False})
        if file.endswith(".safetensors") and rng.random() < 0.7:
            data = rng.choice((forged_tensors, other_tensors, other_tensors))(data, rng)
        else:
            data = spoiled(data, rng)
        return Case(data, {"file": file, "signed": rng.random() < 0.7})

    def run(self, case: Case, folder_: Path) -> Any:
        """Open and search it."""
        files, expected = original()
        target = folder_ / "index"
        target.mkdir()
        for name, data in files.items():
            (target / name).write_bytes(data)
        (target / case.options["file"]).write_bytes(case.data)
        if case.options["signed"] and case.options["file"] != faiss_folder.FILE:
            content = json.loads(files[faiss_folder.FILE])
            content.pop(documents.DIGEST)
            for about in content["files"].values():
                if about["name"] == case.options["file"]:
                    about["digest"] = xxhash.xxh3_128(case.data).hexdigest()
            documents.write(target / faiss_folder.FILE, content)
        index = Index.open(target, originals.tiny())
        found = index.search(QUERIES, k=5)
        if not case.options["signed"] and case.options["file"] != faiss_folder.FILE and found != expected:
            raise Wrong("a spoiled index finds something else")
        index.add(["the small red house"], ids=["another one"])
        index.delete(["another one", "0"])
        return [hit.similarity for result in found for hit in result]


FAMILIES = (Indexes(),)
