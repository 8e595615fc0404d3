"""An index in PostgreSQL, with pgvector. Values are parameters, names are quoted: no text becomes SQL."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sen2pro.errors import Sen2ProError, first_line
from sen2pro.search.rows import Document, Found, Rows, Where
from sen2pro.search.store import (
    SOME_ROWS,
    About,
    DuplicateIds,
    StoreUnavailable,
    missing,
    patiently,
    read_about,
    without_secret,
    written_about,
)
from sen2pro.validation import Array

_CATALOGUE = "sen2pro_indexes"
_OPERATORS = {"dot": ("<#>", "vector_ip_ops"), "l1": ("<+>", "vector_l1_ops"), "l2": ("<->", "vector_l2_ops")}
_MOST_INDEXED = 2000  # dimensions that pgvector builds a graph for
_DEPTH = 200  # rows looked at in a search of the graph at once; it goes on until enough are found
_LEAST_VERSION = (0, 8)  # of pgvector: iterative scans
_WAIT = 10  # seconds for a connection
_MOST_STATEMENTS = 100  # that are kept ready, one for each shape of a filter


class PostgresEngine:
    """Makes and opens indexes in a database."""

    def create(self, url: str, name: str, about: About, overwrite: bool) -> PostgresStore:
        """Make the table of a new index."""
        store = PostgresStore(url, name, about)
        patiently(lambda: store.create(overwrite))
        return store

    def connect(self, url: str, name: str) -> PostgresStore:
        """Open an index."""
        place = f"{name!r} in {without_secret(url)}"
        store = PostgresStore(url, name, None)  # type: ignore[arg-type]  # read next
        store.about, store.confidence = read_about(patiently(store.read_about), place)
        return store


class PostgresStore:
    """A table of rows. Each thread that is at work has a connection of its own; idle ones are used again."""

    about: About

    def __init__(self, url: str, name: str, about: About) -> None:
        try:
            import psycopg
            from pgvector import psycopg as adapter
        except ImportError:
            raise missing("psycopg and pgvector", "postgres") from None
        self._psycopg, self._adapter = psycopg, adapter
        self._url, self._name, self.about = url, name, about
        self.confidence: dict[str, Any] | None = None
        self._statements: dict[tuple[Any, ...], Any] = {}
        self._idle: list[Any] = []
        self._lock = threading.Lock()
        self._ready = False

    def _sql(self, text: str, **more: Any) -> Any:
        """Return a statement with the table in the place of {table}, quoted."""
        from psycopg import sql

        names = {"table": sql.Identifier(self._name), "catalogue": sql.Identifier(_CATALOGUE)}
        return sql.SQL(text).format(**names, **more)  # all texts are of this file

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Give a connection in a transaction: committed at the end, or nothing was done."""
        with self._connected() as connection, connection.transaction():
            yield connection

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Give a connection; each statement is a transaction of its own."""
        connection = None
        try:
            connection = self._connection()
            yield connection
        except self._psycopg.errors.QueryCanceled as error:  # its own time limit, for instance: do not ask again
            raise Sen2ProError(f"PostgreSQL stopped this: {first_line(error)}") from None
        except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
            if connection is not None:
                connection.close()
            raise StoreUnavailable(
                f"PostgreSQL at {without_secret(self._url)} does not answer: {first_line(error)}"
            ) from None
        except self._psycopg.Error as error:
            raise Sen2ProError(f"PostgreSQL refused this: {first_line(error)}") from None
        finally:
            if connection is not None and not connection.closed:
                with self._lock:
                    self._idle.append(connection)

    def _connection(self) -> Any:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            connection = self._psycopg.connect(self._url, autocommit=True, connect_timeout=_WAIT)
        except self._psycopg.ProgrammingError as error:
            raise Sen2ProError(f"this is no address of a PostgreSQL server: {first_line(error)}") from None
        if not self._ready:
            self._prepare(connection)
        self._adapter.register_vector(connection)
        connection.execute(f"SET hnsw.ef_search = {_DEPTH}; SET hnsw.iterative_scan = strict_order")
        return connection

    def _prepare(self, connection: Any) -> None:
        """Make the extension, and look at its version."""
        query = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        found = connection.execute(query).fetchone()
        if found is None:
            try:
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            except self._psycopg.Error as error:
                connection.close()
                raise Sen2ProError(f"this server has no pgvector, which the index needs: {first_line(error)}") from None
            found = connection.execute(query).fetchone()
        version = tuple(int(part) for part in found[0].split(".")[:2])
        if version < _LEAST_VERSION:
            raise Sen2ProError(f"this server has pgvector {found[0]}; it takes 0.8 or later")
        self._ready = True

    def create(self, overwrite: bool) -> None:
        """Make the table."""
        with self._transaction() as connection:
            connection.execute(
                self._sql("CREATE TABLE IF NOT EXISTS {catalogue} (name text PRIMARY KEY, about jsonb NOT NULL)")
            )
            there = connection.execute("SELECT to_regclass(%s)", [f'"{self._name}"']).fetchone()[0]
            if there is not None and not overwrite:
                raise Sen2ProError(f"there is a table {self._name!r} already; pass overwrite=True, or another name=...")
            ours = self._sql("SELECT 1 FROM {catalogue} WHERE name = %s")
            if there is not None and connection.execute(ours, [self._name]).fetchone() is None:
                raise Sen2ProError(f"the table {self._name!r} is no index of sen2pro, so it is not replaced")
            connection.execute(self._sql("DROP TABLE IF EXISTS {table}"))
            connection.execute(
                self._sql(
                    "CREATE TABLE {table} (id text PRIMARY KEY, text text NOT NULL, vector vector({d}) NOT NULL, "
                    "model_variance real NOT NULL, data_variance real NOT NULL, words real NOT NULL, "
                    "metadata jsonb NOT NULL)",
                    d=self._number(self.about.dimensions),
                )
            )
            connection.execute(
                self._sql(
                    "INSERT INTO {catalogue} VALUES (%s, %s::jsonb) ON CONFLICT (name) DO UPDATE SET about = "
                    "EXCLUDED.about"
                ),
                [self._name, json.dumps(written_about(self.about))],
            )

    def keep_confidence(self, content: dict[str, Any] | None) -> None:
        """Keep the confidence in the catalogue, beside how the index was made."""
        with self._transaction() as connection:
            update = self._sql("UPDATE {catalogue} SET about = %s::jsonb WHERE name = %s")
            connection.execute(update, [json.dumps(written_about(self.about, content)), self._name])
        self.confidence = content

    @staticmethod
    def _number(value: int) -> Any:
        from psycopg import sql

        return sql.Literal(value)

    def read_about(self) -> dict[str, Any] | None:
        """Return how the index was made; None if there is none."""
        with self._transaction() as connection:
            if connection.execute("SELECT to_regclass(%s)", [_CATALOGUE]).fetchone()[0] is None:
                return None
            row = connection.execute(
                self._sql("SELECT about FROM {catalogue} WHERE name = %s"), [self._name]
            ).fetchone()
            return None if row is None else row[0]

    def __len__(self) -> int:
        with self._transaction() as connection:
            return int(connection.execute(self._sql("SELECT count(*) FROM {table}")).fetchone()[0])

    def existing(self, ids: Sequence[str]) -> list[str]:
        """Return those of some ids that are there."""
        with self._transaction() as connection:
            found = connection.execute(self._sql("SELECT id FROM {table} WHERE id = ANY(%s)"), [list(ids)]).fetchall()
            there = {row[0] for row in found}
            return [id for id in ids if id in there]

    def write(self, rows: Rows, *, replace: bool) -> None:
        """Add rows in one transaction."""
        columns = "id, text, vector, model_variance, data_variance, words, metadata"
        update = ", ".join(f"{name} = EXCLUDED.{name}" for name in columns.split(", ")[1:])
        with self._transaction() as connection, connection.cursor() as cursor:
            if not replace:
                there = self._sql("SELECT id FROM {table} WHERE id = ANY(%s) FOR UPDATE")
                found = [row[0] for row in cursor.execute(there, [rows.ids]).fetchall()]
                if found:
                    raise DuplicateIds(sorted(found, key=rows.ids.index))
            conflict = f"ON CONFLICT (id) DO UPDATE SET {update}" if replace else ""
            insert = self._sql(
                f"INSERT INTO {{table}} ({columns}) VALUES (%s, %s, %s, %s, %s, %s, %s::jsonb) {conflict}"
            )
            vectors, about = rows.vectors.astype(np.float32), rows.about.tolist()
            try:
                cursor.executemany(
                    insert,
                    [
                        (id, text, vector, *numbers, json.dumps(metadata))
                        for id, text, vector, numbers, metadata in zip(
                            rows.ids, rows.texts, vectors, about, rows.metadata, strict=True
                        )
                    ],
                )
            except self._psycopg.errors.UniqueViolation:  # somebody else has added one of them since
                raise DuplicateIds(rows.ids) from None

    def read(self, ids: Sequence[str]) -> list[Document]:
        """Return those of some documents that are there."""
        with self._transaction() as connection:
            query = self._sql("SELECT id, text, metadata FROM {table} WHERE id = ANY(%s)")
            return [Document(*row) for row in connection.execute(query, [list(ids)]).fetchall()]

    def delete(self, ids: Sequence[str]) -> int:
        """Delete rows in one transaction; return how many there were."""
        with self._transaction() as connection:
            return int(connection.execute(self._sql("DELETE FROM {table} WHERE id = ANY(%s)"), [list(ids)]).rowcount)

    def nearest(self, vectors: Array, k: int, where: Where, *, with_vectors: bool) -> list[Found]:
        """Return the k nearest rows for each vector (n, d), by the graph; a filter walks on until k are found."""
        # One array for each key, compared as JSON: so 1 is 1.0, and true is not 1.
        filters = [each for key, values in where.items() for each in (key, [json.dumps(value) for value in values])]
        with self._connected() as connection:
            found = [self._query(connection, vector, k, filters, with_vectors) for vector in vectors]
        short = [number for number, hits in enumerate(found) if len(hits.ids) < k]
        if short and where:  # the graph may give up before it has found rows that few have
            with self._transaction() as connection:
                connection.execute("SET LOCAL enable_indexscan = off")
                for number in short:
                    found[number] = self._query(connection, vectors[number], k, filters, with_vectors)
        return found

    def _query(self, connection: Any, vector: Array, k: int, filters: list[Any], with_vectors: bool) -> Found:
        statement = self._statements.get((len(filters), with_vectors))
        if statement is None:
            operator, _ = _OPERATORS[self.about.metric]
            conditions = ["metadata -> %s::text = ANY(%s::jsonb[])"] * (len(filters) // 2)
            statement = self._sql(
                f"SELECT id, text, vector {operator} %b AS far, model_variance, data_variance, words, metadata"
                f"{', vector' if with_vectors else ''} FROM {{table}} "
                f"{'WHERE ' + ' AND '.join(conditions) if conditions else ''} ORDER BY far LIMIT %s"
            ).as_bytes(connection)
            if len(self._statements) < _MOST_STATEMENTS:
                self._statements[len(filters), with_vectors] = statement
        rows = connection.execute(statement, [np.asarray(vector, np.float32), *filters, k], binary=True).fetchall()
        if not rows:
            return Found.nothing()
        ids, texts, far, _, _, _, metadata, *vectors = zip(*rows, strict=True)
        stored = np.stack([_array(each) for each in vectors[0]]) if with_vectors else None
        return Found(ids, texts, [-each for each in far], lambda place: rows[place][3:6], metadata, stored)

    def has_key(self, key: str) -> bool:
        """Tell whether a row has this key in its metadata."""
        with self._connected() as connection:
            query = self._sql("SELECT EXISTS (SELECT 1 FROM {table} WHERE jsonb_exists(metadata, %s))")
            return bool(connection.execute(query, [key]).fetchone()[0])

    def keys(self) -> list[str]:
        """Return the keys of the metadata of a thousand rows."""
        with self._connected() as connection:
            few = f"SELECT metadata FROM {{table}} WHERE metadata <> '{{{{}}}}' LIMIT {SOME_ROWS}"
            found = connection.execute(self._sql(f"SELECT DISTINCT jsonb_object_keys(metadata) FROM ({few}) AS few"))
            return sorted(row[0] for row in found.fetchall())

    def finish(self) -> None:
        """Build the graph, if there is none yet and pgvector builds one for so many dimensions."""
        if self.about.kind == "flat" or self.about.dimensions > _MOST_INDEXED:
            return
        _, operators = _OPERATORS[self.about.metric]
        from psycopg import sql

        def build() -> None:
            with self._transaction() as connection:
                connection.execute(
                    self._sql(
                        f"CREATE INDEX IF NOT EXISTS {{graph}} ON {{table}} USING hnsw (vector {operators}) "
                        "WITH (m = 16, ef_construction = 128)",
                        graph=sql.Identifier(f"{self._name}_hnsw"),
                    )
                )
                connection.execute(self._sql("ANALYZE {table}"))

        patiently(build)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()


def _array(vector: Any) -> Array:
    numbers: Callable[[], Any] = getattr(vector, "to_numpy", lambda: vector)
    return np.asarray(numbers(), np.float32)
