"""What a drill holds over an instance's processes for a while, as a worker is told of it with every call."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Disturbance"]


@dataclass(frozen=True)
class Disturbance:
    """What is to be the case in the worker.

    Args:
        cut: whether its Kafka clients act as if no broker could be reached.
        clock_shift_s: how far its clock runs ahead of the host's.
    """

    cut: bool = False
    clock_shift_s: float = 0.0
