"""An index of texts that can be searched, and that says how likely each hit is right."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import overload

import msgspec
import numpy as np

from sen2pro.calibration.defaults import Calibration, calibration, load_search_confidence
from sen2pro.calibration.hits import SearchConfidence
from sen2pro.distances import distance
from sen2pro.encoder.backend import Tokens
from sen2pro.errors import Sen2ProError, Sen2ProWarning, join_names, one_of
from sen2pro.io.gaussians import GaussianBatch
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show, progress
from sen2pro.search.documents import (
    CHUNK,
    EncodedFile,
    Side,
    batches,
    check_ids,
    check_signature,
    check_where,
    describe,
    details_of,
    gaussian_of,
    has_gaussians,
    length_of,
    prompt_name,
    prompt_of_documents,
    search_model,
    unit,
)
from sen2pro.search.results import Result
from sen2pro.search.stores import connect, create, faiss, is_address
from sen2pro.search.stores.protocol import (
    Candidates,
    Document,
    IndexInfo,
    Ranking,
    Rows,
    Store,
    StoreUnavailable,
    Where,
    refuse_duplicates,
    retry,
    write_once,
)
from sen2pro.settings import CERTAINTY
from sen2pro.signature import Signature
from sen2pro.validation import SOURCES, Array, check_whole

MOST_HITS = 10_000
DUPLICATES = ("refuse", "replace")
_CANDIDATES, _FEWEST_CANDIDATES = 10, 200  # that are ranked again: for each hit, and at least
_TIE = 6  # decimals of a similarity; hits that agree on them are in the order of their ids
_MOST_LOOKED_FOR = 10  # keys of a filter that found nothing: looking for one takes a walk through all rows
_NEAR = 1000  # texts whose keys are named then


class Index:
    """Texts that can be searched; made by `build`, `from_file` or `open`.

    `confidence` may be set later: a fitted `SearchConfidence`, or the folder of one.

    Examples
    --------
    >>> model = Sen2Pro("all-MiniLM-L6-v2")
    >>> texts = ["To reset your password, open Settings.", "We ship to all of Europe.", "Our office is in Lyon."]
    >>> index = Index.build(model, texts, ids=["password", "shipping", "office"])
    >>> result = index.search("how do I reset my password?", k=2)
    >>> result.answer.id, [hit.id for hit in result][0]
    ('password', 'password')
    >>> print(index.search("who won the cup in 1998?"))
    no good match (best 0...)
    """

    def __init__(self, model: Sen2Pro, store: Store, confidence: SearchConfidence | str | Path | None = None) -> None:
        self._model, self._store = search_model(model), store
        check_signature(store.info.signature, self._model.signature(), "the index")
        if store.info.dimensions != self._model.dim:
            raise Sen2ProError(
                f"this index holds vectors of {store.info.dimensions} numbers, but the model gives {self._model.dim}; "
                "build it again"
            )
        self._folder: Path | None = None
        if confidence is None and (kept := store.info.confidence) is not None:
            confidence = SearchConfidence.from_json(kept, "the confidence of this index")
        self._calibration: Calibration | None = None
        self._keys: set[str] = set()  # of metadata, that some text had
        self.confidence = confidence

    @classmethod
    def build(
        cls, model: Sen2Pro, texts: Iterable[str] = (), *, ids: Iterable[object] | None = None,
        metadata: Iterable[Mapping[str, object]] | None = None, store: str | None = None, name: str = "sen2pro",
        kind: str | None = None, rerank: str | None = None, confidence: SearchConfidence | str | Path | None = None,
        duplicates: str = "refuse", overwrite: bool = False, allow_pickle: bool = False,
        show_progress_bar: Show = None, total: int | None = None,
    ) -> Index:  # fmt: skip
        """Make an index of texts; they may come from a generator, and are read once, in batches.

        Documents are ranked by the cosine of their plain vectors with that of the query.

        Parameters
        ----------
        model
            The model that encodes texts and queries, in one pass if it has a head.
        texts, ids, metadata
            The texts, an id for each (by default its number), and a dictionary of plain values for each, to filter by.
        store
            None is FAISS, in memory; `postgresql://user@host/database`; `qdrant://host:6333`, `qdrant://:memory:` or
            `qdrant:///folder`.
        name
            The name of the table or collection.
        kind
            `flat` compares all rows. `hnsw` walks a graph: faster from about 100,000 rows on, and nearly exact. By
            default `flat` in memory and `hnsw` in a database.
        rerank
            A distance of Gaussians that ranks the nearest documents again: `eq6` (the paper's) or any name that
            `sen2pro.distance` takes. The index then keeps the Gaussian of each document, three times the space.
        confidence
            A `SearchConfidence` fitted on labelled queries; by default the one that ships for the default model.
        duplicates
            `refuse` or `replace` ids that are in use.
        overwrite
            Whether an index of this name in a database is replaced.
        allow_pickle
            Whether a folder of Qdrant may be read, which is in pickle format.
        total
            The number of texts, for the progress bar, if `texts` has no length.
        """
        info = describe(model, store, kind, rerank)
        index = cls._new(model, store, name, info, confidence, overwrite=overwrite, allow_pickle=allow_pickle)
        names: Iterable[object] = map(str, count()) if ids is None else ids
        found = batches(texts, names, metadata, exact=ids is not None)
        index._fill(((each, None) for each in found), length_of(texts, total), duplicates, show_progress_bar)
        retry(index._store.finish)
        return index

    @classmethod
    def from_file(
        cls, model: Sen2Pro, path: str | Path, *, store: str | None = None, name: str = "sen2pro",
        kind: str | None = None, rerank: str | None = None, metadata: Sequence[str] | None = None,
        confidence: SearchConfidence | str | Path | None = None, duplicates: str = "refuse", overwrite: bool = False,
        allow_pickle: bool = False, show_progress_bar: Show = None,
    ) -> Index:  # fmt: skip
        """Make an index of a file of `sen2pro encode` (Parquet, or a folder of shards) without encoding again.

        `model` must be the one that made the file, with its settings. The file has no plain vectors, so documents are
        ranked by the cosine of the means. Columns that were kept in the file become metadata: all of them, or those
        that `metadata` names. A missing value is left out. Other parameters are as for `build`.
        """
        file = EncodedFile(path, metadata)
        check_signature(file.signature, search_model(model).signature(), "the file")
        info = describe(model, store, kind, rerank, "mean-cosine")
        index = cls._new(model, store, name, info, confidence, overwrite=overwrite, allow_pickle=allow_pickle)
        if prompt := prompt_of_documents(model):
            what = f"this model puts {prompt!r} before each document, but the file was encoded without it"
            warnings.warn(f"{what}; hits may be worse than those of Index.build", Sen2ProWarning, stacklevel=2)
        index._fill(file.batches(), len(file), duplicates, show_progress_bar)
        retry(index._store.finish)
        return index

    @classmethod
    def open(
        cls, place: str | Path, model: Sen2Pro | None = None, *, name: str = "sen2pro",
        confidence: SearchConfidence | str | Path | None = None, allow_pickle: bool = False,
    ) -> Index:  # fmt: skip
        """Open the folder that `save` wrote, or an index in a database by its address.

        An index that was saved with a confidence has it again, unless another one is passed. `model` is the one that
        the index was built with, by default the package's own; an index does not choose it.
        """
        if is_address(place):
            return cls(model or Sen2Pro(), connect(place, name, allow_pickle=allow_pickle), confidence)
        index = cls(model or Sen2Pro(), faiss.load(place), confidence)
        index._folder = Path(place)
        return index

    @classmethod
    def _new(
        cls, model: Sen2Pro, store: str | None, name: str, info: IndexInfo,
        confidence: SearchConfidence | str | Path | None, *, overwrite: bool, allow_pickle: bool,
    ) -> Index:  # fmt: skip
        fitted = load_search_confidence(confidence)
        calibration(fitted, info.signature, info.rerank or info.ranking)  # its errors come before a store is made
        index = cls(model, create(store, name, info, overwrite=overwrite, allow_pickle=allow_pickle), fitted)
        if store is not None and fitted is not None:
            index.save()
        return index

    @property
    def confidence(self) -> SearchConfidence | None:
        """The confidence fitted on labelled queries; None is what ships, if anything does. `save` keeps it."""
        return self._confidence

    @confidence.setter
    def confidence(self, confidence: SearchConfidence | str | Path | None) -> None:
        fitted = load_search_confidence(confidence)
        self._calibration = calibration(fitted, self.signature, self.rerank or self.ranking)
        self._confidence = fitted

    @property
    def calibrated(self) -> bool:
        """Whether hits have probabilities."""
        return self._calibration is not None

    @property
    def model(self) -> Sen2Pro:
        """The model that encodes texts and queries."""
        return self._model

    @property
    def passes(self) -> int:
        """The number of forward passes for a query."""
        return self._model.passes if has_gaussians(self._model) else 1

    @property
    def signature(self) -> Signature:
        """How the texts were encoded."""
        return self._store.info.signature

    @property
    def store(self) -> Store:
        """The store of the documents."""
        return self._store

    @property
    def ranking(self) -> Ranking:
        """Whether documents are ranked by the cosine of plain vectors or of means."""
        return self._store.info.ranking

    @property
    def rerank(self) -> str | None:
        """The distance that ranks the nearest documents again, or None."""
        return self._store.info.rerank

    def __len__(self) -> int:
        return retry(self._store.__len__)

    def __repr__(self) -> str:
        info = self._store.info
        how = f"{info.kind}, {info.ranking}{f', rerank={info.rerank!r}' if info.rerank else ''}"
        return f"Index({len(self)} texts, {how}, model={info.signature.model!r})"

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to a database."""
        self._store.close()

    def add(
        self, texts: str | Iterable[str] | Tokens, *, ids: Iterable[object] | None = None,
        metadata: Iterable[Mapping[str, object]] | None = None, duplicates: str = "refuse",
        show_progress_bar: Show = None,
    ) -> int:  # fmt: skip
        """Add texts and return how many there were; without ids they get random ones.

        `Tokens` must have the prompt of a document: see `prompt`.

        A batch of 1,024 texts is added as a whole or not at all. An error says how many texts were added.
        """
        texts = [texts] if isinstance(texts, str) else texts
        names: Iterable[object] = (uuid.uuid4().hex for _ in count()) if ids is None else ids
        tokens, texts = (texts, texts.texts) if isinstance(texts, Tokens) else (None, texts)
        found = batches(texts, [names] if isinstance(names, str) else names, metadata, exact=ids is not None)
        starts = zip(found, count(0, CHUNK))  # found ends first
        pieces = ((each, tokens and tokens.rows(range(start, start + len(each)))) for each, start in starts)
        return self._fill(pieces, length_of(texts), duplicates, show_progress_bar)

    def _fill(
        self, batches: Iterable[tuple[list[Document], GaussianBatch | Tokens | None]], total: int | None,
        duplicates: str, show: Show,
    ) -> int:  # fmt: skip
        """Write documents, those of a file with their Gaussians; return how many there were."""
        replace = one_of("duplicates", duplicates, DUPLICATES) == "replace"
        done = 0
        with progress(total, show, threshold=2 * CHUNK, unit="texts", title="indexing") as advance:
            try:
                for documents, piece in batches:
                    if not replace:
                        refuse_duplicates(self._store, [document.id for document in documents])
                    rows = Rows(documents, *self._numbers(documents, piece))
                    write_once(self._store, rows.last_of_each_id() if replace else rows, replace=replace)
                    done += len(rows)
                    advance(len(rows))
            except Sen2ProError as error:
                if done or isinstance(error, StoreUnavailable):
                    error.args = (f"{error}. {done} texts of this call were added before, the others were not",)
                raise
        return done

    def _numbers(self, documents: list[Document], piece: GaussianBatch | Tokens | None) -> tuple[Array, Array]:
        """Return the unit vectors (n, k) and the details (n, d) of documents."""
        texts = [document.text for document in documents]
        if not isinstance(piece, GaussianBatch):
            return self._encoded(self._model.tokenize(piece or texts, prompt=self.prompt("document")))
        totals = {source: piece.totals.get(f"{source}_variance") for source in SOURCES}
        return unit(piece.mean), details_of(texts, totals, piece if self.rerank else None)

    def prompt(self, side: Side) -> str:
        """Return the text that the model puts before each text of one side of a search."""
        return self._model.encoder.prompt(None, prompt_name(self._model, side))

    def _encoded(self, tokens: Tokens) -> tuple[Array, Array]:
        """Return the unit vectors (n, k) and the details (n, d) of texts."""
        if not has_gaussians(self._model):
            return unit(self._model.encode_plain(tokens)), details_of(tokens.texts, {}, None)
        found = self._model.estimate(tokens)
        totals = {source: part.total_variance for source, part in found.parts.items()}
        vectors = found.gaussian.mean if self.ranking == "mean-cosine" else found.plain
        return unit(vectors), details_of(tokens.texts, totals, found.gaussian if self.rerank else None)

    def delete(self, ids: object) -> int:
        """Delete texts by their ids; return how many there were."""
        return retry(self._store.delete, names) if (names := check_ids(ids)) else 0

    def get(self, ids: object) -> list[Document]:
        """Return documents by their ids, in the order of the ids; unknown ids are left out.

        >>> index = Index.build(Sen2Pro("all-MiniLM-L6-v2"), ["We ship to all of Europe."], ids=["shipping"])
        >>> index.get(["office", "shipping"])
        [Document(id='shipping', text='We ship to all of Europe.', metadata={})]
        """
        names = check_ids(ids)
        found = retry(self._store.read, names) if names else []
        there = {id: Document(id, text, dict(metadata)) for id, text, metadata in found}
        return [there[id] for id in dict.fromkeys(names) if id in there]

    @overload
    def search(  # type: ignore[overload-overlap]  # a text is a sequence of texts, too
        self, queries: str, k: int = 5, *, where: Mapping[str, object] | None = None, precision: float | None = None,
        certainty: float = CERTAINTY,
    ) -> Result: ...  # fmt: skip
    @overload
    def search(
        self, queries: Sequence[str] | Tokens, k: int = 5, *, where: Mapping[str, object] | None = None,
        precision: float | None = None, certainty: float = CERTAINTY,
    ) -> list[Result]: ...  # fmt: skip
    def search(
        self, queries: str | Sequence[str] | Tokens, k: int = 5, *, where: Mapping[str, object] | None = None,
        precision: float | None = None, certainty: float = CERTAINTY,
    ) -> Result | list[Result]:  # fmt: skip
        """Return the k nearest texts of each query, the nearest first, each with the probability that it is right.

        Parameters
        ----------
        queries
            A list gives a list of results, a single text a single result. `Tokens` must have the prompt of a query.
        k
            The number of hits; an index with fewer texts gives fewer.
        where
            What the metadata of a hit must be: `{"lang": "en", "year": [1999, 2000]}`, with at most 1,000 values.
        precision, certainty
            `Result.answer` is None unless this precision is kept; see `SearchConfidence.abstain`. By default an answer
            is a first hit that is more likely right than not.
        """
        k, wanted = check_whole("k", k, 1, MOST_HITS), check_where(where)
        if precision is not None and self._calibration is None:
            raise Sen2ProError(
                "precision=... needs calibrated probabilities, and there are none for this model. Fit a "
                "SearchConfidence on labelled queries and pass it as confidence=..."
            )
        threshold = self._calibration.threshold(precision, certainty) if self._calibration else None
        tokens = self._model.tokenize(queries, prompt=self.prompt("query"))
        found = self._answers(list(tokens.texts), *self._encoded(tokens), k, wanted, threshold)
        return found[0] if isinstance(queries, str) else found

    def _answers(
        self, texts: list[str], vectors: Array, details: Array, k: int, where: Where, threshold: float | None
    ) -> list[Result]:  # fmt: skip
        """Return the results of queries, given their unit vectors and details."""
        depth = max(k, self._calibration.depth if self._calibration else 0)
        asked = max(_CANDIDATES * depth, _FEWEST_CANDIDATES) if self.rerank else depth
        found = retry(self._store.nearest, vectors, asked, where)
        if where and not all(candidates.documents for candidates in found):
            self._warn_of_keys(where, vectors[:1])
        lists = [self._ranked(candidates, query, depth) for candidates, query in zip(found, details, strict=True)]
        columns = zip(texts, lists, self._probabilities(lists, details), strict=True)
        return [Result.of(*each, k, threshold) for each in columns]

    def _ranked(self, candidates: Candidates, query: Array, most: int) -> Candidates:
        """Return the first candidates in their final order: by similarity, and by id where similarities agree."""
        scores, documents = candidates.similarities, candidates.documents
        if self.rerank and documents:
            metric = "sen2pro" if self.rerank == "eq6" else self.rerank
            distances = distance(gaussian_of(query[None]), gaussian_of(candidates.details), metric)[0]
            scores = (-distances.astype(np.float64)).tolist()
        order = sorted(range(len(documents)), key=lambda row: (-round(scores[row], _TIE), documents[row].id))[:most]
        return Candidates([documents[row] for row in order], [scores[row] for row in order], candidates.details[order])

    def _probabilities(self, lists: list[Candidates], queries: Array) -> list[list[float | None]]:
        """Return the probability of each hit that it is right; None is unknown."""
        if self._calibration is None:
            return [[None] * len(candidates.documents) for candidates in lists]
        scores = [sorted(each.similarities, reverse=True) for each in lists]  # ties are in the order of their ids
        first = np.array([each.details[0, :2] if each.documents else (1.0, 1.0) for each in lists])
        variances = np.concatenate([queries[:, :2], first.reshape(-1, 2)], axis=1)
        return self._calibration.probabilities(scores, lengths=np.maximum(queries[:, 2], 1), variances=variances)

    def _warn_of_keys(self, where: Where, vectors: Array) -> None:
        """Warn of a key that no text has, where a filter found nothing for the vector of a query (1, k)."""
        asked = [key for key in where if key not in self._keys][:_MOST_LOOKED_FOR]
        wrong = [key for key in asked if not retry(self._store.has_key, key)]
        self._keys.update(key for key in asked if key not in wrong)
        near = retry(self._store.nearest, vectors, _NEAR, {})[0].documents if wrong else ()
        if near:
            known = sorted({key for document in near for key in document.metadata})
            keys = f"the keys are {join_names(known, 10)}" if known else "no text has metadata"
            warnings.warn(
                f"where has the key {' and '.join(map(repr, wrong))}, which no text of this index has, so nothing is "
                f"found; {keys}",
                Sen2ProWarning,
                stacklevel=4,
            )

    def save(self, folder: str | Path | None = None, *, overwrite: bool = False) -> None:
        """Write an index in memory to a folder, by default the one it was opened from, with its confidence.

        An index that is there is replaced in one step. A database has saved its texts already; there, `save` without
        a folder writes the confidence for everybody who opens the index from then on.
        """
        store, target = self._store, Path(folder) if folder is not None else self._folder
        if folder is not None and not isinstance(store, faiss.FaissStore):
            raise Sen2ProError(
                "the texts of this index are saved already, in its store; open it by Index.open(address). To keep its "
                "confidence there, call save() without a folder"
            )
        confidence = self._confidence and self._confidence.to_json()
        retry(store.describe, msgspec.structs.replace(store.info, confidence=confidence))
        if isinstance(store, faiss.FaissStore):
            if target is None:
                raise Sen2ProError("give a folder to save this index to")
            own = self._folder is not None and target.resolve() == self._folder.resolve()
            faiss.save(store, target, overwrite=overwrite or own)
            self._folder = target
