from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.testing.in_memory_clients import InMemoryLog
from tests.unit.streaming.worker.bench import Bench


@pytest.fixture
def log() -> InMemoryLog:
    return InMemoryLog()


@pytest.fixture
def bench(tmp_path: Path, log: InMemoryLog) -> Iterator[Bench]:
    bench = Bench(tmp_path, log)
    yield bench
    bench.close()
