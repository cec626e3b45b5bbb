"""A message of the assignment topic, as a consumer gives it."""

from __future__ import annotations

from airflow_provider.control.topics.codec import to_key, to_value
from tests.builders import assigned


class FakeMessage:
    """Generation `offset` + 1."""

    def __init__(self, topic: str, offset: int) -> None:
        self._topic, self._offset = topic, offset

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return self._topic

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return to_key(assigned("a b"))

    def value(self) -> bytes:
        return to_value(assigned("a b", generation=self._offset + 1))

    def timestamp(self) -> tuple[int, int]:
        return 2, 1000 + self._offset
