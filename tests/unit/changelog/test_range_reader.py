from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.reader import ChangelogPartition, read_range
from airflow_provider.changelog.restore_settings import RestoreSettings

PARTITION = ("app-state-changelog", 0)


class LateMarker:
    """A log that ends before a transaction of which the marker is not written yet, and then holds it."""

    def __init__(self) -> None:
        self.read_on = [ChangelogBatch(next_offset=2, at_end=True), ChangelogBatch(keys=[b"k"], next_offset=5)]
        self.added: list[int] = []
        self.removed = 0

    def add(self, partition: ChangelogPartition, offset: int) -> None:
        self.added.append(offset)

    def remove(self, partition: ChangelogPartition) -> None:
        self.removed += 1

    def read(
        self, max_records: int, timeout_s: float, before: int | None = None
    ) -> Mapping[ChangelogPartition, ChangelogBatch]:
        assert before == 5
        return {PARTITION: self.read_on.pop(0)}


@pytest.mark.parametrize(("await_end", "reached"), [(False, [2]), (True, [2, 5])])
def test_end_that_is_not_written_yet_is_waited_for_where_it_is_known_to_come(
    await_end: bool, reached: list[int]
) -> None:
    reader = LateMarker()

    batches = list(read_range(reader, PARTITION, 0, 5, RestoreSettings(), await_end=await_end))

    assert [batch.next_offset for batch in batches] == reached
    assert (reader.added, reader.removed) == ([0], 1)
