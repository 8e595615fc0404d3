"""API keys: where they come from, and whether a request has one."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sen2pro.errors import Sen2ProError
from sen2pro.io.atomic import check_path
from sen2pro.io.rows import lines, open_binary

VARIABLE = "SEN2PRO_API_KEYS"
BROWSER_CHALLENGE = 'Basic realm="sen2pro: any name, and an API key as the password", charset="UTF-8"'
_KEY = re.compile(r"[!-~]{16,512}")  # printable ASCII without blanks, which fits into a header


class ApiKeys:
    """The API keys of a server. Only their digests are kept, so no log and no error can show a key.

    A program sends `Authorization: Bearer KEY`. A browser sends HTTP Basic with any name and the key as password.

    Examples
    --------
    >>> keys = ApiKeys(["correct-horse-battery-staple"])
    >>> keys.allow("Bearer correct-horse-battery-staple"), keys.allow("Bearer wrong"), keys.allow(None)
    (True, False, False)
    >>> ApiKeys([]).allow(None)  # without keys the server is open
    True
    >>> keys
    ApiKeys(1)
    """

    def __init__(self, keys: Iterable[str]) -> None:
        given = list(keys)
        for number, key in enumerate(given, start=1):
            if not isinstance(key, str) or not _KEY.fullmatch(key):
                raise Sen2ProError(
                    f"API key {number} must have 16 to 512 printable ASCII characters and no blanks; make one with: "
                    "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
                )
        self._digests = tuple(hashlib.sha256(key.encode()).digest() for key in dict.fromkeys(given))

    def __len__(self) -> int:
        return len(self._digests)

    def __repr__(self) -> str:
        return f"ApiKeys({len(self)})"

    def allow(self, authorization: str | None) -> bool:
        """Tell whether an Authorization header has a valid key. The time does not depend on the key."""
        if not self._digests:
            return True
        given = hashlib.sha256(_key_in(authorization or "")).digest()
        found = False
        for digest in self._digests:  # compare with all of them, so that the time says nothing
            found |= hmac.compare_digest(given, digest)
        return found

    @classmethod
    def read(cls, path: str | Path | None = None, environment: Mapping[str, str] = os.environ) -> ApiKeys:
        """Read keys from a file (one per line) and from the environment variable SEN2PRO_API_KEYS (comma-separated).

        A file without a key is an error, so a server that should be locked is never open.
        """
        keys: list[str] = []
        if path is not None:
            with open_binary(check_path(path)) as file:
                stripped = [text.strip() for _, text in lines(file, str(path), 4096)]
            keys = [key for key in stripped if key and not key.startswith("#")]
            if not keys:
                raise Sen2ProError(f"there is no key in {path}; write one per line, or leave the file out")
        if VARIABLE in environment:
            given = [key.strip() for key in re.split(r"[,\s]+", environment[VARIABLE]) if key.strip()]
            if not given:
                raise Sen2ProError(f"{VARIABLE} is set, but holds no key; unset it to serve without keys")
            keys += given
        return cls(keys)


def _key_in(header: str) -> bytes:
    """Return the key in an Authorization header; nothing if there is none.

    >>> _key_in("Bearer abc"), _key_in("Basic bmFtZTphYmM="), _key_in("Basic ???"), _key_in("abc")
    (b'abc', b'abc', b'', b'')
    """
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""
