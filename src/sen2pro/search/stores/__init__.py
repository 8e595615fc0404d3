"""Make and open stores by their address."""

from __future__ import annotations

import re
from typing import TypeGuard

from sen2pro.errors import Sen2ProError, one_of, short_repr
from sen2pro.search.stores.protocol import (
    DatabaseStore,
    IndexInfo,
    NoIndex,
    Store,
    StoreUnavailable,
    from_json,
    retry,
    without_secret,
)

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def create(
    url: str | None, name: str, info: IndexInfo, *, overwrite: bool = False, allow_pickle: bool = False
) -> Store:
    """Make a new store at an address; None is FAISS, in memory."""
    _check_name(name)
    if url is None:
        from sen2pro.search.stores.faiss import FaissStore

        return FaissStore(info)
    store = _store_class(url)(url, name, allow_pickle=allow_pickle)
    retry(store.create, info, overwrite=overwrite)
    return store


def connect(url: str, name: str, *, allow_pickle: bool = False) -> Store:
    """Open the store at an address."""
    _check_name(name)
    store = _store_class(url)(url, name, allow_pickle=allow_pickle)
    try:
        store.info = from_json(retry(store.about), f"{name!r} in {without_secret(url)}")
    except Sen2ProError:
        store.close()
        raise
    return store


def check_new(url: str | None, name: str, *, overwrite: bool = False, allow_pickle: bool = False) -> None:
    """Raise what `create` would raise, before long work. Engines within this process are not asked."""
    _check_name(name)
    if url is None:
        return
    _store_class(url)
    if url.split("://", 1)[1].startswith((":memory:", "/")):
        return
    try:
        connect(url, name, allow_pickle=allow_pickle).close()
    except NoIndex:
        return
    except Sen2ProError as error:
        if isinstance(error, StoreUnavailable) or not overwrite:
            raise
    if not overwrite:
        raise Sen2ProError(f"there is an index {name!r} already; pass overwrite=True, or another name=...")


def is_address(place: object) -> TypeGuard[str]:
    """Tell whether this is the address of a store, and not a folder."""
    return isinstance(place, str) and "://" in place


def _store_class(url: object) -> type[DatabaseStore]:
    if not is_address(url):
        raise Sen2ProError(
            f"store must be None (FAISS) or an address like postgresql://... or qdrant://..., not {short_repr(url)}"
        )
    scheme = url.split("://", 1)[0].lower().split("+")[0]
    scheme = "postgresql" if scheme == "postgres" else scheme
    if one_of("store", scheme, ("postgresql", "qdrant")) == "qdrant":
        from sen2pro.search.stores.qdrant import QdrantStore

        return QdrantStore
    from sen2pro.search.stores.postgres import PostgresStore

    return PostgresStore


def _check_name(name: object) -> None:
    """Refuse a name that could not be the name of a table."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        rule = "the name of an index has 1 to 40 small letters, digits and _, and starts with a letter"
        raise Sen2ProError(f"{rule}, not {short_repr(name)}")
