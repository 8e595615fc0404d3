"""Search that knows when it does not know: an index on FAISS, PostgreSQL or Qdrant whose hits carry a probability."""

from typing import TYPE_CHECKING

from sen2pro import importer

if TYPE_CHECKING:
    from sen2pro.search.duplicates import Duplicate, Duplicates, find_duplicates
    from sen2pro.search.index import Index
    from sen2pro.search.results import Hit, Result
    from sen2pro.search.stores.protocol import Document, DuplicateIds, Store, StoreUnavailable

# Imported on first use: torch takes seconds, and each engine is an extra.
_HOME = {
    "Document": "stores.protocol", "Duplicate": "duplicates", "DuplicateIds": "stores.protocol",
    "Duplicates": "duplicates", "Hit": "results", "Index": "index", "Result": "results", "Store": "stores.protocol",
    "StoreUnavailable": "stores.protocol", "find_duplicates": "duplicates",
}  # fmt: skip

__all__ = [
    "Document", "Duplicate", "DuplicateIds", "Duplicates", "Hit", "Index", "Result", "Store", "StoreUnavailable",
    "find_duplicates",
]  # fmt: skip

__getattr__, __dir__ = importer(__name__, _HOME)
