"""A file of Java's properties, which may hold passwords."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from airflow_provider.common.private_files import create_private_file

__all__ = ["write_properties"]


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    """Write a file that this user alone may read, in place of one that is there.

    Args:
        file: its path.
        properties: by name the value, in which a backslash stands for itself.
    """
    lines = [f"{name}={_escaped(value)}\n" for name, value in properties.items()]
    scratch = file.with_name(f"{file.name}.new")
    scratch.unlink(missing_ok=True)
    create_private_file(scratch, "".join(lines).encode())
    scratch.replace(file)


def _escaped(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
    # Java reads such a file as ISO 8859-1, and takes UTF-16 for the rest.
    units = ((char, char.encode("utf-16-be").hex()) for char in escaped)
    return "".join(
        char if char.isascii() else "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))
        for char, code in units
    )
