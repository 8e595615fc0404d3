"""An index in PostgreSQL, with pgvector. Values are parameters and names are quoted: no text becomes SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from sen2pro.errors import Sen2ProError, first_line
from sen2pro.search.stores.protocol import (
    Candidates,
    Document,
    DuplicateIds,
    IndexInfo,
    Rows,
    StoreUnavailable,
    Where,
    missing,
    to_json,
    without_secret,
)
from sen2pro.validation import Array

try:
    import psycopg
    from pgvector.psycopg import register_vector
    from psycopg import sql
    from psycopg.types.json import Jsonb
except ImportError:
    raise missing("psycopg and pgvector", "postgres") from None

_CATALOGUE = "sen2pro_indexes"  # one row for each index of a database
_COLUMNS = ("id", "text", "vector", "details", "metadata")
_MOST_INDEXED = 2000  # dimensions that pgvector builds a graph for
_DEPTH = 200  # rows looked at in a search of the graph at once; it continues until enough are found
_LEAST_VERSION = (0, 8)  # of pgvector: iterative scans
_WAIT = 10  # seconds for a connection
Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresStore:
    """A table of documents. Each working thread uses one connection, and idle ones are reused."""

    info: IndexInfo

    def __init__(self, url: str, name: str, *, allow_pickle: bool = False) -> None:
        self._url, self._name = url, name
        self._idle: list[Connection] = []
        self._has_vectors = False

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Give a connection; each statement is a separate transaction."""
        connection = None
        try:
            connection = self._connection()
            yield connection
        except psycopg.errors.QueryCanceled as error:  # for instance by its own time limit: do not ask again
            raise Sen2ProError(f"PostgreSQL stopped this: {first_line(error)}") from None
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if connection is not None:
                connection.close()
            place = without_secret(self._url)
            raise StoreUnavailable(f"PostgreSQL at {place} does not answer: {first_line(error)}") from None
        except psycopg.Error as error:
            raise Sen2ProError(f"PostgreSQL refused this: {first_line(error)}") from None
        finally:
            if connection is not None and not connection.closed:
                self._idle.append(connection)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Give a connection in a transaction: all is done at the end, or nothing."""
        with self._connected() as connection, connection.transaction():
            yield connection

    def _connection(self) -> Connection:
        with suppress(IndexError):  # none is idle
            return self._idle.pop()
        try:
            connection = psycopg.connect(self._url, autocommit=True, connect_timeout=_WAIT)
        except psycopg.ProgrammingError as error:
            raise Sen2ProError(f"this is not the address of a PostgreSQL server: {first_line(error)}") from None
        if not self._has_vectors:
            _check_extension(connection)
            self._has_vectors = True
        register_vector(connection)
        connection.execute(f"SET hnsw.ef_search = {_DEPTH}; SET hnsw.iterative_scan = strict_order")
        return connection

    def _sql(self, text: str, **more: sql.Composable) -> sql.Composed:
        """Return a statement with the table in the place of {table}, quoted. All texts are of this file."""
        names = {"table": sql.Identifier(self._name), "catalogue": sql.Identifier(_CATALOGUE)}
        return sql.SQL(text).format(**names, **more)

    def create(self, info: IndexInfo, *, overwrite: bool) -> None:
        """Make an empty table, and describe it in the catalogue."""
        with self._transaction() as connection:
            connection.execute(
                self._sql("CREATE TABLE IF NOT EXISTS {catalogue} (name text PRIMARY KEY, about jsonb NOT NULL)")
            )
            if _has_table(connection, self._name):
                if not overwrite:
                    raise Sen2ProError(
                        f"there is a table {self._name!r} already; pass overwrite=True, or another name=..."
                    )
                ours = self._sql("SELECT 1 FROM {catalogue} WHERE name = %s")
                if connection.execute(ours, [self._name]).fetchone() is None:
                    raise Sen2ProError(f"the table {self._name!r} is not an index of sen2pro; it is not replaced")
                connection.execute(self._sql("DROP TABLE {table}"))
            connection.execute(
                self._sql(
                    "CREATE TABLE {table} (id text PRIMARY KEY, text text NOT NULL, vector vector({size}) NOT NULL, "
                    "details real[] NOT NULL, metadata jsonb NOT NULL)",
                    size=sql.Literal(info.dimensions),
                )
            )
            self._describe(connection, info)

    def _describe(self, connection: Connection, info: IndexInfo) -> None:
        upsert = "INSERT INTO {catalogue} VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET about = EXCLUDED.about"
        connection.execute(self._sql(upsert), [self._name, Jsonb(to_json(info))])
        self.info = info

    def about(self) -> object:
        """Return what the catalogue says of the index; None if there is no such index."""
        with self._connected() as connection:
            if not _has_table(connection, _CATALOGUE):
                return None
            query = self._sql("SELECT about FROM {catalogue} WHERE name = %s")
            return next((row[0] for row in connection.execute(query, [self._name])), None)

    def describe(self, info: IndexInfo) -> None:
        """Keep another description in the catalogue."""
        with self._connected() as connection:
            self._describe(connection, info)

    def __len__(self) -> int:
        with self._connected() as connection:
            return sum(row[0] for row in connection.execute(self._sql("SELECT count(*) FROM {table}")))

    def read(self, ids: Sequence[str]) -> list[Document]:
        """Return the documents with these ids; unknown ids are left out."""
        with self._connected() as connection:
            query = self._sql("SELECT id, text, metadata FROM {table} WHERE id = ANY(%s)")
            return [Document(*row) for row in connection.execute(query, [list(ids)])]

    def write(self, rows: Rows, *, replace: bool) -> None:
        """Add rows in one transaction."""
        update = ", ".join(f"{name} = EXCLUDED.{name}" for name in _COLUMNS[1:])
        conflict = f"ON CONFLICT (id) DO UPDATE SET {update}" if replace else ""
        insert = self._sql(f"INSERT INTO {{table}} ({', '.join(_COLUMNS)}) VALUES (%s, %s, %s, %s, %s) {conflict}")
        columns = zip(rows.documents, rows.vectors.astype(np.float32), rows.details.tolist(), strict=True)
        values = [(id, text, vector, details, Jsonb(dict(more))) for (id, text, more), vector, details in columns]
        with self._transaction() as connection, connection.cursor() as cursor:
            try:
                cursor.executemany(insert, values)
            except psycopg.errors.UniqueViolation:
                raise DuplicateIds([document.id for document in self.read(rows.ids)]) from None

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents in one transaction; return how many there were."""
        with self._connected() as connection:
            return connection.execute(self._sql("DELETE FROM {table} WHERE id = ANY(%s)"), [list(ids)]).rowcount

    def nearest(self, vectors: Array, k: int, where: Where) -> list[Candidates]:
        """Return the k nearest documents for each vector (n, k), by the graph; a filter walks on until k are found."""
        # One array for each key, compared as JSON: so 1 is 1.0, and true is not 1.
        filters = [each for key, values in where.items() for each in (key, [json.dumps(value) for value in values])]
        conditions = ["metadata -> %s::text = ANY(%s::jsonb[])"] * len(where)
        query = self._sql(
            "SELECT id, text, metadata, vector <#> %b AS far, details FROM {table} "
            f"{'WHERE ' + ' AND '.join(conditions) if where else ''} ORDER BY far LIMIT %s"
        )

        def find(connection: Connection, vector: Array) -> Candidates:
            rows = connection.execute(query, [np.asarray(vector, np.float32), *filters, k], binary=True).fetchall()
            documents, details = [Document(*row[:3]) for row in rows], np.array([row[4] for row in rows], np.float32)
            return Candidates(documents, [-row[3] for row in rows], details) if rows else Candidates.none()

        with self._connected() as connection:
            found = [find(connection, vector) for vector in vectors]
        short = [number for number, candidates in enumerate(found) if len(candidates.documents) < k]
        if short and where:  # the graph may give up before it has found rows that few have
            with self._transaction() as connection:
                connection.execute("SET LOCAL enable_indexscan = off")
                for number in short:
                    found[number] = find(connection, vectors[number])
        return found

    def has_key(self, key: str) -> bool:
        """Tell whether a document has this key in its metadata."""
        with self._connected() as connection:
            query = self._sql("SELECT 1 FROM {table} WHERE jsonb_exists(metadata, %s) LIMIT 1")
            return connection.execute(query, [key]).fetchone() is not None

    def finish(self) -> None:
        """Build the graph, if there is none yet and pgvector can build it."""
        if self.info.kind == "flat" or self.info.dimensions > _MOST_INDEXED:
            return
        graph = sql.Identifier(f"{self._name}_hnsw")
        with self._transaction() as connection:
            build = "CREATE INDEX IF NOT EXISTS {graph} ON {table} USING hnsw (vector vector_ip_ops) "
            connection.execute(self._sql(f"{build} WITH (m = 16, ef_construction = 128)", graph=graph))
            connection.execute(self._sql("ANALYZE {table}"))

    def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().close()


def _has_table(connection: Connection, name: str) -> bool:
    return connection.execute("SELECT to_regclass(%s)", [f'"{name}"']).fetchone() != (None,)


def _check_extension(connection: Connection) -> None:
    """Load pgvector into the database if it is not there, and check its version."""
    query = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    found = connection.execute(query).fetchone()
    if found is None:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.Error as error:
            connection.close()
            raise Sen2ProError(f"this server has no pgvector, which the index needs: {first_line(error)}") from None
        found = connection.execute(query).fetchone()
    version = str(found[0]) if found else "0"
    if tuple(int(part) for part in version.split(".")[:2]) < _LEAST_VERSION:
        raise Sen2ProError(f"this server has pgvector {version}; the index needs 0.8 or later")
