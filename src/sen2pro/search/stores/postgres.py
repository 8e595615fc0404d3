"""An index in PostgreSQL, with pgvector. Values are parameters and names are quoted: no text becomes SQL."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sen2pro.errors import Sen2ProError, first_line
from sen2pro.search.documents import Document, Where
from sen2pro.search.stores.protocol import (
    SOME_ROWS,
    Candidates,
    DuplicateIds,
    IndexInfo,
    Json,
    Rows,
    StoreUnavailable,
    from_json,
    missing,
    retried,
    retry,
    retry_write,
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

_CATALOGUE = sql.Identifier("sen2pro_indexes")  # one row for each index of a database
_COLUMNS = ("id", "text", "vector", "details", "metadata")
_MOST_INDEXED = 2000  # dimensions that pgvector builds a graph for
_DEPTH = 200  # rows looked at in a search of the graph at once; it continues until enough are found
_LEAST_VERSION = (0, 8)  # of pgvector: iterative scans
_WAIT = 10  # seconds for a connection
_MOST_STATEMENTS = 100  # prepared statements, one for each shape of a filter
Connection = psycopg.Connection[tuple[Any, ...]]


class Database:
    """Connections to a server: each working thread has one, and idle ones are reused."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._ready = False

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Give a connection in a transaction: all is done at the end, or nothing."""
        with self.connected() as connection, connection.transaction():
            yield connection

    @contextmanager
    def connected(self) -> Iterator[Connection]:
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
                with self._lock:
                    self._idle.append(connection)

    def _connection(self) -> Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            connection = psycopg.connect(self._url, autocommit=True, connect_timeout=_WAIT)
        except psycopg.ProgrammingError as error:
            raise Sen2ProError(f"this is not the address of a PostgreSQL server: {first_line(error)}") from None
        if not self._ready:
            _check_extension(connection)
            self._ready = True
        register_vector(connection)
        connection.execute(f"SET hnsw.ef_search = {_DEPTH}; SET hnsw.iterative_scan = strict_order")
        return connection

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()


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


class PostgresStore:
    """A table of documents."""

    def __init__(self, database: Database, name: str, info: IndexInfo, confidence: Json | None = None) -> None:
        self.info, self.confidence = info, confidence
        self._database, self._name = database, name
        self._statements: dict[int, bytes] = {}  # by the number of keys in the filter

    @classmethod
    def create(
        cls, url: str, name: str, info: IndexInfo, *, overwrite: bool = False, allow_pickle: bool = False
    ) -> PostgresStore:
        """Make the table of a new index."""
        store = cls(Database(url), name, info)
        store._create(overwrite)
        return store

    @classmethod
    def connect(cls, url: str, name: str, *, allow_pickle: bool = False) -> PostgresStore:
        """Open an index."""
        database = Database(url)
        content = _read_info(database, name)
        return cls(database, name, *from_json(content, f"{name!r} in {without_secret(url)}"))

    def _sql(self, text: str, **more: sql.Composable) -> sql.Composed:
        """Return a statement with the table in the place of {table}, quoted. All texts are of this file."""
        return sql.SQL(text).format(table=sql.Identifier(self._name), catalogue=_CATALOGUE, **more)

    @retried
    def _create(self, overwrite: bool) -> None:
        with self._database.transaction() as connection:
            connection.execute(
                self._sql("CREATE TABLE IF NOT EXISTS {catalogue} (name text PRIMARY KEY, about jsonb NOT NULL)")
            )
            if connection.execute("SELECT to_regclass(%s)", [f'"{self._name}"']).fetchone() != (None,):
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
                    size=sql.Literal(self.info.dimensions),
                )
            )
            upsert = "INSERT INTO {catalogue} VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET about = EXCLUDED.about"
            connection.execute(self._sql(upsert), [self._name, Jsonb(to_json(self.info))])

    @retried
    def keep_confidence(self, content: Json | None) -> None:
        """Keep the JSON of a confidence in the catalogue, beside the description of the index."""
        with self._database.transaction() as connection:
            update = self._sql("UPDATE {catalogue} SET about = %s WHERE name = %s")
            connection.execute(update, [Jsonb(to_json(self.info, content)), self._name])
        self.confidence = content

    @retried
    def __len__(self) -> int:
        with self._database.transaction() as connection:
            return sum(row[0] for row in connection.execute(self._sql("SELECT count(*) FROM {table}")))

    @retried
    def read(self, ids: Sequence[str]) -> list[Document]:
        """Return the documents with these ids; unknown ids are left out."""
        with self._database.transaction() as connection:
            query = self._sql("SELECT id, text, metadata FROM {table} WHERE id = ANY(%s)")
            return [Document(*row) for row in connection.execute(query, [list(ids)])]

    def write(self, rows: Rows, *, replace: bool) -> None:
        """Add rows in one transaction."""
        retry_write(lambda: self._write(rows, replace), rows.ids)

    def _write(self, rows: Rows, replace: bool) -> None:
        update = ", ".join(f"{name} = EXCLUDED.{name}" for name in _COLUMNS[1:])
        conflict = f"ON CONFLICT (id) DO UPDATE SET {update}" if replace else ""
        insert = self._sql(f"INSERT INTO {{table}} ({', '.join(_COLUMNS)}) VALUES (%s, %s, %s, %s, %s) {conflict}")
        with self._database.transaction() as connection, connection.cursor() as cursor:
            if not replace:
                there = self._sql("SELECT id FROM {table} WHERE id = ANY(%s) FOR UPDATE")
                found = [row[0] for row in cursor.execute(there, [rows.ids])]
                if found:
                    raise DuplicateIds(sorted(found, key=rows.ids.index))
            vectors = rows.vectors.astype(np.float32)
            try:
                cursor.executemany(
                    insert,
                    [
                        (document.id, document.text, vector, details, Jsonb(dict(document.metadata)))
                        for document, vector, details in zip(
                            rows.documents, vectors, rows.details.tolist(), strict=True
                        )
                    ],
                )
            except psycopg.errors.UniqueViolation:  # somebody else has added one of them since
                raise DuplicateIds(rows.ids) from None

    @retried
    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents in one transaction; return how many there were."""
        with self._database.transaction() as connection:
            return connection.execute(self._sql("DELETE FROM {table} WHERE id = ANY(%s)"), [list(ids)]).rowcount

    @retried
    def nearest(self, vectors: Array, k: int, where: Where) -> list[Candidates]:
        """Return the k nearest documents for each vector (n, k), by the graph; a filter walks on until k are found."""
        # One array for each key, compared as JSON: so 1 is 1.0, and true is not 1.
        filters = [each for key, values in where.items() for each in (key, [json.dumps(value) for value in values])]
        with self._database.connected() as connection:
            found = [self._query(connection, vector, k, filters) for vector in vectors]
        short = [number for number, candidates in enumerate(found) if len(candidates.documents) < k]
        if short and where:  # the graph may give up before it has found rows that few have
            with self._database.transaction() as connection:
                connection.execute("SET LOCAL enable_indexscan = off")
                for number in short:
                    found[number] = self._query(connection, vectors[number], k, filters)
        return found

    def _query(self, connection: Connection, vector: Array, k: int, filters: Sequence[object]) -> Candidates:
        statement = self._statements.get(len(filters))
        if statement is None:
            conditions = ["metadata -> %s::text = ANY(%s::jsonb[])"] * (len(filters) // 2)
            statement = self._sql(
                "SELECT id, text, metadata, vector <#> %b AS far, details FROM {table} "
                f"{'WHERE ' + ' AND '.join(conditions) if conditions else ''} ORDER BY far LIMIT %s"
            ).as_bytes(connection)
            if len(self._statements) < _MOST_STATEMENTS:
                self._statements[len(filters)] = statement
        rows = connection.execute(statement, [np.asarray(vector, np.float32), *filters, k], binary=True).fetchall()
        if not rows:
            return Candidates.none()
        documents = [Document(*row[:3]) for row in rows]
        return Candidates(documents, [-row[3] for row in rows], np.array([row[4] for row in rows], np.float32))

    @retried
    def has_key(self, key: str) -> bool:
        """Tell whether a document has this key in its metadata."""
        with self._database.connected() as connection:
            query = self._sql("SELECT 1 FROM {table} WHERE jsonb_exists(metadata, %s) LIMIT 1")
            return connection.execute(query, [key]).fetchone() is not None

    @retried
    def keys(self) -> list[str]:
        """Return the keys of the metadata of a thousand documents."""
        with self._database.connected() as connection:
            few = f"SELECT metadata FROM {{table}} WHERE metadata <> '{{{{}}}}' LIMIT {SOME_ROWS}"
            query = self._sql(f"SELECT DISTINCT jsonb_object_keys(metadata) FROM ({few}) AS few")
            return sorted(row[0] for row in connection.execute(query))

    @retried
    def finish(self) -> None:
        """Build the graph, if there is none yet and pgvector can build it."""
        if self.info.kind == "flat" or self.info.dimensions > _MOST_INDEXED:
            return
        graph = sql.Identifier(f"{self._name}_hnsw")
        with self._database.transaction() as connection:
            build = "CREATE INDEX IF NOT EXISTS {graph} ON {table} USING hnsw (vector vector_ip_ops) "
            connection.execute(self._sql(f"{build} WITH (m = 16, ef_construction = 128)", graph=graph))
            connection.execute(self._sql("ANALYZE {table}"))

    def close(self) -> None:
        """Close all connections."""
        self._database.close()


def _read_info(database: Database, name: str) -> object:
    """Return what the catalogue says of an index; None if there is no such index."""

    def read() -> object:
        with database.transaction() as connection:
            if connection.execute("SELECT to_regclass('sen2pro_indexes')").fetchone() == (None,):
                return None
            query = sql.SQL("SELECT about FROM {} WHERE name = %s").format(_CATALOGUE)
            row = connection.execute(query, [name]).fetchone()
            return None if row is None else row[0]

    return retry(read)
