"""The life of a slot's driver."""

from __future__ import annotations

from enum import Enum

__all__ = ["SlotState"]


class SlotState(Enum):
    """What the thread of a slot's driver is about.

    ::

                 ┌──> STEADY <──┐
                 │              v
        BACKING_OFF <──────> SETTLING        each of the three ──> STOPPING ──> STOPPED
    """

    STEADY = "steady"
    """Every task is where it is to be: a round now and then follows the standbys' changelogs."""
    SETTLING = "settling"
    """A task is on its way: rounds follow each other without a pause."""
    BACKING_OFF = "backing off"
    """Something failed: no call is made and no query is started before it is tried again."""
    STOPPING = "stopping"
    """Queries end after their micro-batch, then a last round closes every task."""
    STOPPED = "stopped"
    """Nothing is called any more."""

    @property
    def successors(self) -> frozenset[SlotState]:
        """What may come next, besides itself."""
        return _SUCCESSORS[self]

    def transition(self, to: SlotState) -> SlotState:
        """The next state.

        Raises:
            RuntimeError: it cannot follow this one.
        """
        if to is not self and to not in self.successors:
            raise RuntimeError(f"A slot that is {self.value} cannot become {to.value}.")
        return to


_WORKING = frozenset({SlotState.STEADY, SlotState.SETTLING, SlotState.BACKING_OFF, SlotState.STOPPING})
_SUCCESSORS = {
    SlotState.STEADY: _WORKING,
    SlotState.SETTLING: _WORKING,
    SlotState.BACKING_OFF: _WORKING,
    SlotState.STOPPING: frozenset({SlotState.STOPPED}),
    SlotState.STOPPED: frozenset[SlotState](),
}
