"""Where a secret is that must be nowhere: in what processes show of themselves, and in files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import psutil


def forms_of(secret: str) -> set[str]:
    """As it is, and as JSON and JAAS write it."""
    return {secret, json.dumps(secret)[1:-1], secret.replace("\\", "\\\\").replace('"', '\\"')}


def holds(text: str, secrets: Iterable[str]) -> bool:
    return any(form in text for secret in secrets for form in forms_of(secret))


def arguments_with(secrets: Iterable[str]) -> list[str]:
    """The programs of this host that have one among their arguments."""
    found = []
    for process in psutil.process_iter():
        try:
            arguments = process.cmdline()
        except psutil.Error:
            continue
        if holds("\n".join(arguments), secrets):
            found.append(f"{process.pid} {arguments[:3]}")
    return found


def environments_with(secrets: Iterable[str], processes: Iterable[psutil.Process]) -> list[str]:
    """The variables of these processes that have one in their value."""
    found = []
    for process in processes:
        try:
            variables = process.environ()
        except psutil.Error:
            continue
        found += [f"{process.pid} {name}" for name, value in variables.items() if holds(value, secrets)]
    return found


def files_with(secrets: Iterable[str], folder: Path) -> list[Path]:
    """The files below a folder that have one in their content."""
    needles = [form.encode() for secret in secrets for form in forms_of(secret)]
    found = []
    # `os.walk` goes past a folder that is removed meanwhile; `rglob` raises.
    for file in sorted(Path(at, name) for at, _, names in os.walk(folder) for name in names):
        try:
            content = file.read_bytes() if file.is_file() else b""
        except OSError:
            continue
        if any(needle in content for needle in needles):
            found.append(file)
    return found
