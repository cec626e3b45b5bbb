from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.snapshot.object_store import STORES, ObjectStore, object_store


@pytest.fixture(scope="session")
def running_store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def store(running_store: ObjectStore) -> Iterator[ObjectStore]:
    """An S3-like store that works, until a test asks it otherwise."""
    yield running_store
    running_store.refused_with, running_store.refused = None, ("DELETE", "GET", "HEAD", "POST", "PUT")
    running_store.passing.set()


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty folder in each kind of place where snapshots can lie here."""
    match request.param:
        case "file":
            return f"file://{tmp_path}/remote"
        case "memory":
            return f"memory://{uuid.uuid4().hex}"
        case _:
            started: ObjectStore = request.getfixturevalue("store")
            return started.url()
