"""Whether the groups of a task belong into its partition of the source."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from airflow_provider.kafka.partitioners import PARTITIONERS

_ENOUGH: Final = 100
"""Groups that show which partitioner placed them: with two partitions 2^-100 is the chance that another would, too."""


class PartitionCheck:
    """Finds groups that another producer, with another partitioner, put into another partition than the others would.

    Which partitioner the topic's producers use is not known: it is one that explains every group seen so far, those
    that were found right by an earlier owner of the task among them. Each further group that lies elsewhere by its rule
    is a stray: its other records are in another partition, or will be.

    Args:
        known: gives groups that were found right before; asked once, before the first group is looked at, for some.
    """

    def __init__(self, partition: int, num_partitions: int, known: Callable[[], Iterable[bytes]] = lambda: ()) -> None:
        self._partition, self._num_partitions = partition, num_partitions
        self._candidates = list(PARTITIONERS)
        self._known: Callable[[], Iterable[bytes]] | None = known

    @property
    def partitioner(self) -> str:
        """The one that is taken for the topic's, in words."""
        return self._candidates[0]

    def strays(self, groups: Sequence[bytes]) -> list[bytes]:
        """Those of some groups that do not belong here.

        Raises:
            Exception: what `known` raises; it is asked again with the next call.
        """
        if not groups:
            return []
        if self._known is not None:
            found_before = list(itertools.islice(self._known(), _ENOUGH))
            self._known = None
            self.strays(found_before)
        fits = {name: PARTITIONERS[name](groups, self._num_partitions) == self._partition for name in self._candidates}
        whole = [name for name in self._candidates if fits[name].all()]
        # Where none explains all of them, the one that explains most is the topic's.
        self._candidates = whole or [max(self._candidates, key=lambda name: int(fits[name].sum()))]
        return [] if whole else [groups[at] for at in np.flatnonzero(~fits[self.partitioner]).tolist()]
