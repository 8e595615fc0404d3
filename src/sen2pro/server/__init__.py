"""An HTTP server for embeddings, distributions and the answers made from them.

It speaks the dialects of OpenAI (`/v1/embeddings`) and of text-embeddings-inference (`/embed`), and routes of its own.

>>> from sen2pro.server import Serving
>>> Serving(port=9000).host
'127.0.0.1'
"""

from typing import TYPE_CHECKING

from sen2pro import importer

if TYPE_CHECKING:
    from sen2pro.server.app import create_app
    from sen2pro.server.auth import ApiKeys
    from sen2pro.server.running import serve
    from sen2pro.server.serving import Serving

# Imported on first use: FastAPI and uvicorn are an extra.
_HOME = {"ApiKeys": "auth", "Serving": "serving", "create_app": "app", "serve": "running"}

__all__ = ["ApiKeys", "Serving", "create_app", "serve"]

__getattr__, __dir__ = importer(__name__, _HOME)
