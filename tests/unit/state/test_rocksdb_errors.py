from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.errors import StateError, StoreCorruptedError, StoreLockedError
from airflow_provider.state.store import typed_error


@pytest.mark.parametrize(
    ("text", "kind", "next_step"),
    [
        pytest.param(
            "IO error: lock hold by current process, acquire time 1 acquiring thread 2: /s/LOCK: No locks available",
            StoreLockedError,
            "End the other process",
            id="held-by-this-process",
        ),
        pytest.param(
            "IO error: While lock file: /s/LOCK: Resource temporarily unavailable",
            StoreLockedError,
            "End the other process",
            id="held-by-another",
        ),
        pytest.param(
            "Invalid argument: Column families not opened: store-seen",
            StoreLockedError,
            "End the other process",
            id="held-by-another-while-its-families-were-looked-up",
        ),
        pytest.param("Corruption: block checksum mismatch", StoreCorruptedError, "moved aside", id="bad-block"),
        pytest.param(
            "IO error: No such file or directory: /s/000012.sst", StoreCorruptedError, "moved aside", id="lost-file"
        ),
        pytest.param("Invalid argument: /s does not exist", StoreCorruptedError, "moved aside", id="bad-manifest"),
        pytest.param("IO error: No space left on device", StateError, "check the disk's space", id="full-disk"),
        pytest.param("IO error: {braces} Read-only file system", StateError, "{braces}", id="any-text"),
    ],
)
def test_error_is_sorted_by_what_it_says(text: str, kind: type[StateError], next_step: str) -> None:
    error = typed_error(Exception(text), Path("/s"))

    assert type(error) is kind
    assert text in str(error)
    assert "/s" in str(error)
    assert next_step in str(error)
