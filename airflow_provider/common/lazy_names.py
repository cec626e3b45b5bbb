"""A package whose names are loaded when they are asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any


def lazy_names(package: str, names: Mapping[str, Collection[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package (PEP 562), so that importing it loads none of its modules.

    Args:
        names: by module of the package, those that it defines and the package exports.
    """

    def load(name: str) -> Any:
        for module, defined in names.items():
            if name in defined:
                return getattr(importlib.import_module(f"{package}.{module}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
