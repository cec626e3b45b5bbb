"""What a drill found in the topics that an application writes its output to."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OutputCheck", "OutputCount"]


@dataclass(frozen=True, kw_only=True)
class OutputCount:
    """The records of one topic, a sink or a dead-letter topic, between two moments.

    Args:
        topic: its name.
        committed: how many the commits of all tasks stand for.
        found: how many a reader of committed records finds.
        lost: how many offsets between the two moments were deleted although no setting of the topic explains it.
        settings: of the topic, that do not explain it; empty where nothing is lost.
    """

    topic: str
    committed: int
    found: int
    lost: int = 0
    settings: str = ""

    @property
    def missing(self) -> int:
        """How many are not there although they were committed."""
        return max(0, self.committed - self.found)

    @property
    def doubled(self) -> int:
        """How many are there that no commit stands for."""
        return max(0, self.found - self.committed)


@dataclass(frozen=True, kw_only=True)
class OutputCheck:
    """The outputs of a drill, from just before its fault until it was judged.

    Args:
        counts: of each topic; empty where they were not counted.
        unmeasured: why they were not; None where they were.
    """

    counts: tuple[OutputCount, ...] = ()
    unmeasured: str | None = None
