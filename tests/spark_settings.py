"""Settings of a Spark session that several tests share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def with_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """The session with these settings of its SQL, and afterwards with those that it had."""
    before = {name: session.conf.get(name) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield session
    finally:
        for name, was in before.items():
            session.conf.set(name, was or "")
