"""An index of texts that can be searched, and that says how likely each hit is right."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, overload

from sen2pro.calibration.hits import Calibration, SearchConfidence, calibration, load_search_confidence
from sen2pro.errors import Sen2ProError, Sen2ProWarning, join_names, one_of
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show, progress
from sen2pro.search import folder as folders
from sen2pro.search.batches import CHUNK, check_nul, chunks, last_of_each, told
from sen2pro.search.encoding import Encoded, TextEncoder, prompt_of_documents
from sen2pro.search.faiss_store import FaissStore
from sen2pro.search.finding import nearest, results
from sen2pro.search.ranking import PLAIN, Ranking, ranking
from sen2pro.search.results import Result
from sen2pro.search.rows import Document, Rows, Where, check_ids, check_metadata, check_where
from sen2pro.search.store import (
    KINDS,
    MOST_DIMENSIONS,
    About,
    DuplicateIds,
    Store,
    connect,
    create,
    is_address,
    patiently,
)
from sen2pro.signature import MATTERS, Signature
from sen2pro.validation import check_sentences, check_whole

MOST_HITS = 10_000
DUPLICATES = ("refuse", "replace")
_MOST_LOOKED_FOR = 10  # keys of a filter that found nothing: to look for one takes a walk through all rows
_OF_THE_INDEX = (*MATTERS, "samples", "max_length", "prompt")  # what may not differ between building and searching


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
        self._encoder, self._store = TextEncoder(model), store
        self._ranking: Ranking = ranking(
            store.about.ranking, store.about.alpha if store.about.ranking == "sen2pro" else None
        )
        _check_signature(store.about.signature, self._encoder.signature)
        size = self._ranking.size(model.dim)
        if (store.about.dimensions, store.about.metric) != (size, self._ranking.metric):
            raise Sen2ProError(
                f"this index holds vectors of {store.about.dimensions} numbers ({store.about.metric}), but the model "
                f"gives {size} ({self._ranking.metric}); build it again"
            )
        self._folder: Path | None = None
        if confidence is None and store.confidence is not None:
            confidence = SearchConfidence.from_json(store.confidence, "the confidence of this index")
        self._calibration: Calibration | None = None
        self._keys: set[str] = set()  # of metadata, that some text had
        self.confidence = confidence

    @classmethod
    def build(
        cls, model: Sen2Pro, texts: Iterable[str] = (), *, ids: Iterable[Any] | None = None,
        metadata: Iterable[Mapping[str, Any]] | None = None, store: str | None = None, name: str = "sen2pro",
        kind: str | None = None, ranking: str = PLAIN, alpha: float | str | None = None,
        confidence: SearchConfidence | str | Path | None = None, duplicates: str = "refuse", overwrite: bool = False,
        allow_pickle: bool = False, show_progress_bar: Show = None, total: int | None = None,
    ) -> Index:  # fmt: skip
        """Make an index of texts; they may come from a generator, and are read once, in batches.

        Parameters
        ----------
        model
            What encodes texts and queries, in one pass if it has a head.
        texts, ids, metadata
            The texts, an id for each (by default its number), and a dictionary of plain values for each, to filter by.
        store
            None is FAISS, in memory; `postgresql://user@host/database`; `qdrant://host:6333`, `qdrant://:memory:` or
            `qdrant:///folder`.
        name
            Of the table or collection.
        kind
            `flat` compares all rows, `hnsw` walks a graph: faster from about 100,000 rows on, and nearly exact. By
            default `flat` in memory and `hnsw` in a database. For `bhattacharyya` and `symmetric-kl` only `flat`.
        ranking, alpha
            `cosine` of the plain vectors, `mean-cosine`, or a distance of `sen2pro.distance`, by name.
        confidence
            A `SearchConfidence` fitted on labelled queries; by default what ships for the default model.
        duplicates
            `refuse` or `replace` ids that are there already.
        overwrite
            Whether an index of this name in a database is replaced.
        allow_pickle
            Whether a folder of Qdrant's may be read, which is in pickle format.
        total
            How many texts there are, for the progress bar, where it cannot be told.
        """
        index = cls._new(model, store, name, kind, ranking, alpha, overwrite, allow_pickle, confidence)
        names: Iterable[Any] = map(str, count()) if ids is None else ids
        index._add(texts, names, metadata, duplicates, show_progress_bar, total, exact=ids is not None)
        index._store.finish()
        return index

    @classmethod
    def from_file(
        cls, model: Sen2Pro, path: str | Path, *, store: str | None = None, name: str = "sen2pro",
        kind: str | None = None, ranking: str = "mean-cosine", alpha: float | str | None = None,
        metadata: Sequence[str] | None = None, confidence: SearchConfidence | str | Path | None = None,
        duplicates: str = "refuse", overwrite: bool = False, allow_pickle: bool = False,
        show_progress_bar: Show = None,
    ) -> Index:  # fmt: skip
        """Make an index of what `sen2pro encode` wrote, a Parquet file or a folder of shards, without encoding again.

        `model` must be the one that made the file, with its settings. Such a file has no plain vectors, so documents
        are ranked by the cosine of the means, or by a distance. Columns that were kept in it become metadata: all of
        them, or those that `metadata` names. A value that is missing is left out. Other parameters are as for `build`.
        """
        from sen2pro.search.encoded_file import EncodedFile

        file = EncodedFile(path, metadata)
        _check_signature(file.signature, TextEncoder(model).signature, "the file")
        if prompt := prompt_of_documents(model):
            what = f"this model puts {prompt!r} before each document, but the file was encoded without it"
            warnings.warn(f"{what}; hits may be worse than those of Index.build", Sen2ProWarning, stacklevel=2)
        index = cls._new(model, store, name, kind, ranking, alpha, overwrite, allow_pickle, confidence)
        replace = one_of("duplicates", duplicates, DUPLICATES) == "replace"
        done = 0
        with progress(len(file), show_progress_bar, threshold=20 * CHUNK, unit="rows", title="indexing") as advance:
            for batch in file.batches(CHUNK):
                number = len(batch.encoded)
                try:
                    names = check_ids(batch.ids if batch.ids is not None else range(done, done + number))
                    index._refuse_duplicates(names, replace)
                except Sen2ProError as error:
                    raise told(error, done) from None
                rows = index._rows(batch.encoded, names, batch.texts or [""] * number, batch.metadata)
                done += index._write(rows, replace, done)
                advance(number)
        index._store.finish()
        return index

    @classmethod
    def open(
        cls, place: str | Path, model: Sen2Pro | None = None, *, name: str = "sen2pro",
        confidence: SearchConfidence | str | Path | None = None, allow_pickle: bool = False,
    ) -> Index:  # fmt: skip
        """Open the folder that `save` wrote, or an index in a database by its address.

        An index that was saved with a confidence has it again, unless another one is passed.

        `model` is the one that the index was built with, by default the package's own; an index does not choose it.
        """
        if isinstance(place, str) and is_address(place):
            return cls(model or Sen2Pro(), connect(place, name, allow_pickle=allow_pickle), confidence)
        store = folders.load(place)
        index = cls(model or Sen2Pro(), store, confidence)
        index._folder = Path(place)
        return index

    @classmethod
    def _new(
        cls, model: Sen2Pro, store: str | None, name: str, kind: str | None, by: str, alpha: float | str | None,
        overwrite: bool, allow_pickle: bool, confidence: Any,
    ) -> Index:  # fmt: skip
        about, fitted = described(model, store, kind, by, alpha), load_search_confidence(confidence)
        calibration(fitted, about.signature, by)  # what is wrong with it is said before a store is made
        index = cls(model, create(store, name, about, overwrite=overwrite, allow_pickle=allow_pickle), fitted)
        if store is not None and fitted is not None:
            index.save()
        return index

    @property
    def confidence(self) -> SearchConfidence | None:
        """What was fitted on labelled queries; None is what ships, if anything does. `save` keeps it."""
        return self._confidence

    @confidence.setter
    def confidence(self, confidence: SearchConfidence | str | Path | None) -> None:
        fitted = load_search_confidence(confidence)
        self._calibration = calibration(fitted, self._encoder.signature, self._ranking.name)
        self._confidence = fitted

    @property
    def calibrated(self) -> bool:
        """Whether hits have probabilities."""
        return self._calibration is not None

    @property
    def model(self) -> Sen2Pro:
        """What encodes texts and queries."""
        return self._encoder.model

    @property
    def passes(self) -> int:
        """How many forward passes a query takes."""
        return self._encoder.passes

    @property
    def signature(self) -> Signature:
        """How the texts were encoded."""
        return self._store.about.signature

    @property
    def store(self) -> Store:
        """Where the rows lie."""
        return self._store

    @property
    def ranking(self) -> str:
        """By what documents are ranked."""
        return self._ranking.name

    def __len__(self) -> int:
        return patiently(lambda: len(self._store))

    def __repr__(self) -> str:
        about = self._store.about
        return f"Index({len(self)} texts, {about.kind}, ranking={about.ranking!r}, model={about.signature.model!r})"

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to a database."""
        self._store.close()

    def add(
        self, texts: str | Iterable[str], *, ids: Iterable[Any] | None = None,
        metadata: Iterable[Mapping[str, Any]] | None = None, duplicates: str = "refuse",
        show_progress_bar: Show = None,
    ) -> int:  # fmt: skip
        """Add texts and return how many there were; without ids they get random ones.

        A batch of 1,024 texts is added as a whole or not at all. An error says how many texts are in.
        """
        texts = [texts] if isinstance(texts, str) else texts
        names: Iterable[Any] = (uuid.uuid4().hex for _ in count()) if ids is None else ids
        names = [names] if isinstance(names, str) else names
        return self._add(texts, names, metadata, duplicates, show_progress_bar, None, exact=ids is not None)

    def _add(
        self, texts: Iterable[str], ids: Iterable[Any], metadata: Iterable[Mapping[str, Any]] | None,
        duplicates: str, show: Show, total: int | None, *, exact: bool,
    ) -> int:  # fmt: skip
        replace = one_of("duplicates", duplicates, DUPLICATES) == "replace"
        with suppress(TypeError):
            total = len(texts) if total is None else total  # type: ignore[arg-type]
        done = 0
        with progress(total, show, threshold=2 * CHUNK, unit="texts", title="indexing") as advance:
            for chunk, names, about in chunks(texts, ids, metadata, exact):
                try:
                    checked, names = check_sentences(chunk), check_ids(names)
                    plain = check_metadata(about, len(chunk))
                    check_nul(checked)
                    self._refuse_duplicates(names, replace)
                    rows = self._rows(self._encoder(checked, "document"), names, checked, plain)
                except Sen2ProError as error:
                    raise told(error, done) from None
                self._write(rows, replace, done)
                done += len(checked)
                advance(len(checked))
        return done

    def _rows(self, encoded: Encoded, ids: list[str], texts: list[str], metadata: list[dict[str, Any]]) -> Rows:
        return Rows(ids, texts, self._ranking.document(encoded), encoded.about, metadata)

    def _refuse_duplicates(self, ids: list[str], replace: bool) -> None:
        if replace:
            return
        repeated = sorted({id for id in ids if ids.count(id) > 1}) if len(set(ids)) < len(ids) else []
        there = repeated or patiently(lambda: self._store.existing(ids))
        if there:
            raise DuplicateIds(there)

    def _write(self, rows: Rows, replace: bool, before: int) -> int:
        """Write a batch, with patience; return how many rows it had."""
        tries = 0

        def write() -> None:
            nonlocal tries
            tries += 1
            try:
                self._store.write(last_of_each(rows) if replace else rows, replace=replace)
            except DuplicateIds as error:
                # None of them was there before. If all are after a try that failed, it did not fail: its answer was
                # lost.
                if tries == 1 or set(error.ids) != set(rows.ids):
                    raise

        try:
            patiently(write)
        except Sen2ProError as error:
            raise told(error, before) from None
        return len(rows)

    def delete(self, ids: Any) -> int:
        """Delete texts by their ids; return how many there were."""
        names = check_ids(ids)
        return patiently(lambda: self._store.delete(names)) if names else 0

    def get(self, ids: Any) -> list[Document]:
        """Return documents by their ids, in the order of the ids; those that are not there are left out.

        >>> index = Index.build(Sen2Pro("all-MiniLM-L6-v2"), ["We ship to all of Europe."], ids=["shipping"])
        >>> index.get(["office", "shipping"])
        [Document(id='shipping', text='We ship to all of Europe.', metadata={})]
        """
        names = check_ids(ids)
        found = patiently(lambda: self._store.read(names)) if names else []
        there = {id: Document(id, text, dict(metadata)) for id, text, metadata in found}
        return [there[id] for id in dict.fromkeys(names) if id in there]

    @overload
    def search(  # type: ignore[overload-overlap]  # a text is a sequence of texts, too
        self, queries: str, k: int = 5, *, where: Mapping[str, Any] | None = None, precision: float | None = None,
        certainty: float = 0.95,
    ) -> Result: ...  # fmt: skip
    @overload
    def search(
        self, queries: Sequence[str], k: int = 5, *, where: Mapping[str, Any] | None = None,
        precision: float | None = None, certainty: float = 0.95,
    ) -> list[Result]: ...  # fmt: skip
    def search(
        self, queries: str | Sequence[str], k: int = 5, *, where: Mapping[str, Any] | None = None,
        precision: float | None = None, certainty: float = 0.95,
    ) -> Result | list[Result]:  # fmt: skip
        """Return the k nearest texts of each query, the nearest first, each with the probability that it is right.

        Parameters
        ----------
        queries
            A list gives a list of results, a single text a single result.
        k
            How many hits; an index with fewer texts gives fewer.
        where
            What the metadata of a hit must be: `{"lang": "en", "year": [1999, 2000]}`. It may have 1,000 values.
        precision, certainty
            `Result.answer` is None unless this precision is kept; see `SearchConfidence.abstain`. By default an answer
            is a first hit that is more likely right than not.
        """
        single = isinstance(queries, str)
        k, wanted = check_whole("k", k, 1, MOST_HITS), check_where(where)
        threshold = self._calibration.threshold(precision, certainty) if self._calibration else None
        if precision is not None and self._calibration is None:
            raise Sen2ProError(
                "no precision can be kept: nothing is calibrated for this model. Label queries, and pass "
                "confidence=SearchConfidence().fit(...)"
            )
        texts = check_sentences(queries)
        found = self._answers(texts, self._encoder(texts, "query"), k, wanted, threshold)
        return found[0] if single else found

    def _answers(
        self, texts: list[str], queries: Encoded, k: int, where: Where, threshold: float | None
    ) -> list[Result]:  # fmt: skip
        """Return the results of queries that are encoded."""
        depth = max(k, self._calibration.depth if self._calibration else 0)
        lists = nearest(self._store, self._ranking, queries, depth, where)
        if where and not all(hits.found.ids for hits in lists):
            self._warn_of_keys(where)
        return results(texts, queries, lists, k, self._calibration, threshold)

    def _warn_of_keys(self, where: Where) -> None:
        """Warn of a key that no text has, where a filter found nothing."""
        asked = [key for key in where if key not in self._keys][:_MOST_LOOKED_FOR]
        wrong = [key for key in asked if not patiently(partial(self._store.has_key, key))]
        self._keys.update(key for key in asked if key not in wrong)
        if wrong and len(self):
            known = patiently(self._store.keys)
            keys = f"the keys are {join_names(known, 10)}" if known else "no text has metadata"
            warnings.warn(
                f"where has the key {' and '.join(map(repr, wrong))}, which no text of this index has, so nothing is "
                f"found; {keys}",
                Sen2ProWarning,
                stacklevel=4,
            )

    def save(self, folder: str | Path | None = None, *, overwrite: bool = False) -> None:
        """Write an index in memory to a folder, by default the one it was opened from, with its confidence.

        An index that is there is replaced in one step. The texts of a database are saved already; there, `save` without
        a folder writes the confidence, which everybody who opens the index gets from then on.
        """
        if folder is not None and not isinstance(self._store, FaissStore):
            raise Sen2ProError(
                "the texts of this index are saved already, in its store; open it by Index.open(address). To keep its "
                "confidence there, call save() without a folder"
            )
        if folder is None and self._folder is None and isinstance(self._store, FaissStore):
            raise Sen2ProError("give a folder to save this index to")
        content = None if self._confidence is None else self._confidence.to_json()
        patiently(lambda: self._store.keep_confidence(content))
        if not isinstance(self._store, FaissStore):
            return
        target = Path(folder) if folder is not None else self._folder
        assert target is not None
        own = self._folder is not None and target.resolve() == self._folder.resolve()
        folders.save(self._store, target, overwrite=overwrite or own)
        self._folder = target


def described(model: Sen2Pro, store: str | None, kind: str | None, by: str, alpha: float | str | None) -> About:
    """Return how a new index would be made, with its defaults; what cannot be made is an error. For `Index.build`.

    >>> described(Sen2Pro("all-MiniLM-L6-v2"), None, None, "mean-cosine", None).kind
    'flat'
    """
    encoder, chosen = TextEncoder(model), ranking(by, alpha)
    if not encoder.has_gaussians and by != PLAIN:
        raise Sen2ProError(
            f"this model has no head, so one pass gives no distributions to rank by {by!r}; rank by 'cosine', fit a "
            "head (Sen2Pro.distill), or ask for samples: Sen2Pro(..., samples=15)"
        )
    kind = one_of("kind", kind or ("flat" if store is None or not chosen.graph else "hnsw"), KINDS)
    if kind == "hnsw" and not chosen.graph:
        raise Sen2ProError(f"a graph finds hardly any neighbour by {by!r}; pass kind='flat', or rank by another name")
    dimensions = check_whole("the number of dimensions", chosen.size(model.dim), 1, MOST_DIMENSIONS)
    return About(encoder.signature, by, chosen.alpha, chosen.metric, dimensions, kind)


def _check_signature(kept: Signature | None, given: Signature, what: str = "the index") -> None:
    if kept is None:
        raise Sen2ProError(f"{what} does not say how it was made, so it cannot be compared with a query")
    differing = [
        f"{name} {getattr(kept, name)!r} in {what}, but {getattr(given, name)!r} now"
        for name in _OF_THE_INDEX
        if getattr(kept, name) != getattr(given, name)
    ]
    if differing:
        versions = f" ({what} was made with sen2pro {kept.version}, this is {given.version})"
        raise Sen2ProError(
            f"{what} was made with another model or other settings: {'; '.join(differing)}"
            f"{versions if kept.version != given.version else ''}. Pass model=... as it was, or build again"
        )
