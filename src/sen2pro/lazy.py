"""Packages whose public names are imported on first use: a library that takes seconds waits until somebody needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def importer(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package, from its public names and the module inside it that has each.

    >>> find, names = importer("sen2pro", {"Gaussian": "gaussian"})
    >>> find("Gaussian").__name__
    'Gaussian'
    >>> find("Gauss")
    Traceback (most recent call last):
    AttributeError: module 'sen2pro' has no attribute 'Gauss'
    """

    def find(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find, lambda: sorted([*vars(import_module(package)), *homes])
