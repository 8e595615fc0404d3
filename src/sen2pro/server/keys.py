"""API keys: where they come from, and whether a call has one."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sen2pro.errors import Sen2ProError
from sen2pro.io.text import check_path, lines, open_binary

VARIABLE = "SEN2PRO_API_KEYS"
_KEY = re.compile(r"[!-~]{16,512}")  # printable ASCII without blanks: what a header can carry


class Keys:
    """The keys that open the server; only their digests are kept, so that no log and no error can show one.

    Examples
    --------
    >>> keys = Keys(["correct-horse-battery-staple"])
    >>> keys.allow("Bearer correct-horse-battery-staple"), keys.allow("Bearer wrong"), keys.allow(None)
    (True, False, False)
    >>> Keys([]).allow(None)  # without keys the server is open
    True
    >>> keys
    Keys(1)
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
        return f"Keys({len(self)})"

    def allow(self, authorization: str | None) -> bool:
        """Tell whether an Authorization header has a key; it takes the same time for every wrong one."""
        if not self._digests:
            return True
        scheme, _, key = (authorization or "").partition(" ")
        given = hashlib.sha256(key.strip().encode("utf-8", "surrogateescape")).digest()
        found = False
        for digest in self._digests:  # all of them, whichever fits
            found |= hmac.compare_digest(given, digest)
        return found and scheme.lower() == "bearer"

    @classmethod
    def read(cls, path: str | Path | None = None, environment: Mapping[str, str] = os.environ) -> Keys:
        """Read keys from a file, one a line, and from the environment variable SEN2PRO_API_KEYS, with commas between.

        A file that is named must hold at least one key: a server that was meant to be locked is never open.
        """
        found: list[str] = []
        if path is not None:
            with open_binary(check_path(path)) as file:
                every = [text.strip() for _, text in lines(file, str(path), 4096)]
            found = [key for key in every if key and not key.startswith("#")]
            if not found:
                raise Sen2ProError(f"there is no key in {path}; write one a line, or leave the file out")
        if VARIABLE in environment:
            given = [key.strip() for key in re.split(r"[,\s]+", environment[VARIABLE]) if key.strip()]
            if not given:
                raise Sen2ProError(f"{VARIABLE} is set, but holds no key; unset it to serve without keys")
            found += given
        return cls(found)
